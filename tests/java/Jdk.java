// Posts a body with the JDK's own HTTP client, as LangChain4j does by default: HTTP/2 preferred.
// Arguments: address, body, how often. Prints status and first line of each answer.

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class Jdk {
    public static void main(String[] args) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        HttpRequest request = HttpRequest.newBuilder(URI.create(args[0]))
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(args[1]))
                .build();
        for (int i = 0; i < Integer.parseInt(args[2]); i++) {
            HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.statusCode() + " " + answer.body().lines().findFirst().orElse(""));
        }
    }
}
