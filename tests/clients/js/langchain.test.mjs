import assert from "node:assert/strict";
import { test } from "node:test";
import { HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import * as loop from "./loop.mjs";

const model = new ChatOpenAI({
  model: loop.model,
  apiKey: "none",
  configuration: { baseURL: loop.baseURL },
  temperature: 0,
  maxTokens: 100,
  maxRetries: 0,
});

for (const stream of [false, true]) {
  const kind = stream ? "streamed" : "plain";

  test(`the loop, ${kind}`, async () => {
    const weather = new loop.Weather();
    const { name, description, parameters: schema } = loop;
    const getWeather = tool(weather.answer, { name, description, schema });
    const ask = async (messages, tool_choice) => {
      const bound = model.bindTools([getWeather], { tool_choice });
      if (!stream) return bound.invoke(messages);
      let whole;
      for await (const chunk of await bound.stream(messages)) whole = whole?.concat(chunk) ?? chunk;
      return whole;
    };
    const user = new HumanMessage(loop.question);
    const first = await ask([user], loop.name);
    assert.equal(first.response_metadata.finish_reason, "tool_calls");
    assert.equal(first.invalid_tool_calls.length, 0);
    const [call] = first.tool_calls;
    assert.equal(call.name, loop.name);
    const result = await getWeather.invoke(call);
    assert.equal(result.tool_call_id, call.id);
    const last = await ask([user, first, result], "none");
    weather.check(last.text);
  });
}

for (const method of ["jsonSchema", "functionCalling"]) {
  test(`an answer by a schema, ${method}`, async () => {
    const structured = model.withStructuredOutput(loop.Forecast, { name: "forecast", method });
    loop.Forecast.parse(await structured.invoke(loop.forecastText));
  });
}
