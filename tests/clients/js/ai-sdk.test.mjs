import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount, Output, streamText, tool } from "ai";
import * as loop from "./loop.mjs";

const provider = createOpenAICompatible({
  name: "callwright",
  baseURL: loop.baseURL,
  apiKey: "none",
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const common = { model: provider(loop.model), temperature: 0, maxOutputTokens: 100, maxRetries: 0 };

const withTool = (weather) => ({
  ...common,
  prompt: loop.question,
  tools: {
    [loop.name]: tool({
      description: loop.description,
      inputSchema: loop.parameters,
      execute: weather.answer,
    }),
  },
  stopWhen: isStepCount(2),
  prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "none" }),
});

const checkSteps = (steps) => {
  assert.deepEqual(steps.map((step) => step.finishReason === "tool-calls"), [true, false]);
  const [call] = steps[0].toolCalls;
  const [result] = steps[0].toolResults;
  assert.equal(call.toolName, loop.name);
  assert.equal(call.toolCallId, result.toolCallId);
  assert.ok(!call.invalid);
};

test("the loop, plain", async () => {
  const weather = new loop.Weather();
  const { text, steps, usage } = await generateText(withTool(weather));
  checkSteps(steps);
  assert.ok(usage.outputTokens > 0);
  weather.check(text);
});

test("the loop, streamed", async () => {
  const weather = new loop.Weather();
  const result = streamText({ ...withTool(weather), onError: ({ error }) => assert.fail(error) });
  const deltas = [];
  for await (const delta of result.textStream) deltas.push(delta);
  checkSteps(await result.steps);
  weather.check(deltas.join(""));
});

test("an answer by a schema, plain", async () => {
  const output = Output.object({ schema: loop.Forecast });
  const answer = await generateText({ ...common, prompt: loop.forecastText, output });
  loop.Forecast.parse(answer.output);
});

test("an answer by a schema, streamed", async () => {
  const output = Output.object({ schema: loop.Forecast });
  const result = streamText({ ...common, prompt: loop.forecastText, output });
  loop.Forecast.parse(await result.output);
});
