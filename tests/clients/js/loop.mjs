// The one tool that every client offers, and what must hold when it has been called.
// What a small model says is not asserted, only what the server promises of it: so the first turn
// must call the tool, and the last one cannot.

import assert from "node:assert/strict";
import { z } from "zod";

export const baseURL = process.env.CALLWRIGHT_BASE_URL;
export const model = process.env.CALLWRIGHT_MODEL;

export const question = "What is the weather in Porto, in degrees Celsius?";
export const forecastText = "It will rain in Porto tomorrow, at 12 degrees.";
export const name = "get_weather";
export const description = "Current weather of a city.";
export const parameters = z.strictObject({ city: z.string(), unit: z.enum(["C", "F"]) });
export const Forecast = z.object({
  city: z.string(),
  celsius: z.int(),
  sky: z.enum(["sun", "rain", "snow"]),
});

/** The tool itself; it remembers what it was asked. */
export class Weather {
  asked = [];

  answer = (given) => {
    const { city, unit } = parameters.parse(given);
    this.asked.push({ city, unit });
    return JSON.stringify({ city, temperature: 12, unit, sky: "rain" });
  };

  /** The tool was called, and a text was made of its result. */
  check(answer) {
    assert.ok(this.asked.length > 0);
    assert.equal(typeof answer, "string");
    assert.ok(answer.trim());
  }
}
