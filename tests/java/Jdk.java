// Posts with the JDK's own HTTP client, as LangChain4j does by default: HTTP/2 preferred.
// Each line on standard input is a body, sent to the address in the first argument.
// Each line on standard output is the answer to one: its status, and its body in Base64.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

public class Jdk {
    public static void main(String[] args) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        BufferedReader bodies =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String body = bodies.readLine(); body != null; body = bodies.readLine()) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(args[0]))
                    .header("Content-Type", "application/json")
                    .header("User-Agent", "langchain4j-openai")
                    .POST(HttpRequest.BodyPublishers.ofString(body))
                    .build();
            HttpResponse<byte[]> answer = client.send(request, HttpResponse.BodyHandlers.ofByteArray());
            System.out.println(
                    answer.statusCode() + " " + Base64.getEncoder().encodeToString(answer.body()));
        }
    }
}
