import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { zodFunction, zodResponseFormat } from "openai/helpers/zod";
import * as loop from "./loop.mjs";

const client = new OpenAI({ baseURL: loop.baseURL, apiKey: "none", maxRetries: 0 });
const common = { model: loop.model, temperature: 0, max_tokens: 100 };
const tools = [zodFunction({ name: loop.name, description: loop.description, parameters: loop.parameters })];
const user = { role: "user", content: loop.question };
const named = { type: "function", function: { name: loop.name } };

for (const stream of [false, true]) {
  const kind = stream ? "streamed" : "plain";

  test(`the loop, ${kind}`, async () => {
    const weather = new loop.Weather();
    const ask = async (messages, tool_choice) => {
      const body = { ...common, messages, tools, tool_choice };
      const completion = stream
        ? await client.chat.completions.stream(body).finalChatCompletion()
        : await client.chat.completions.parse(body);
      return completion.choices[0];
    };
    const first = await ask([user], named);
    assert.equal(first.finish_reason, "tool_calls");
    const [call] = first.message.tool_calls;
    assert.equal(call.function.name, loop.name);
    assert.deepEqual(call.function.parsed_arguments, JSON.parse(call.function.arguments));
    const content = weather.answer(call.function.parsed_arguments);
    const history = [user, first.message, { role: "tool", tool_call_id: call.id, content }];
    const last = await ask(history, "none");
    weather.check(last.message.content);
  });

  test(`an answer by a schema, ${kind}`, async () => {
    const body = {
      ...common,
      messages: [{ role: "user", content: loop.forecastText }],
      response_format: zodResponseFormat(loop.Forecast, "forecast"),
    };
    const completion = stream
      ? await client.chat.completions.stream(body).finalChatCompletion()
      : await client.chat.completions.parse(body);
    loop.Forecast.parse(completion.choices[0].message.parsed);
  });
}

test("the raw stream, as people read it", async () => {
  const chunks = await client.chat.completions.create({
    ...common,
    messages: [user],
    tools,
    tool_choice: named,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  let usage = null;
  for await (const chunk of chunks) {
    text += chunk.choices[0]?.delta.tool_calls?.[0].function.arguments ?? "";
    usage = chunk.usage ?? usage;
  }
  loop.parameters.parse(JSON.parse(text));
  assert.ok(usage.completion_tokens > 0);
});

test("the helper that runs tools", async () => {
  const weather = new loop.Weather();
  const runner = client.chat.completions.runTools({
    ...common,
    messages: [user],
    tools: [
      zodFunction({
        name: loop.name,
        description: loop.description,
        parameters: loop.parameters,
        function: weather.answer,
      }),
    ],
    tool_choice: named, // with a named tool the helper ends after its result
  });
  const result = await runner.finalFunctionToolCallResult();
  assert.equal(JSON.parse(result).temperature, 12);
  assert.equal(weather.asked.length, 1);
});
