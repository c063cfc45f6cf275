import { describe, expect, it } from "vitest";
import { type FieldType, readValue, showValue } from "../../src/pages/new/values";

describe("a text and its value", () => {
  it.each<[FieldType, string, unknown]>([
    ["whole", " 32 ", 32],
    ["whole", "-1", -1],
    ["number", "1e-3", 0.001],
    ["bytes", "80 GiB", 80 * 2 ** 30],
    ["bytes", "80GB", 80e9],
    ["bytes", "1.5 Ki", 1536],
    ["bytes", "123", 123],
    ["rate", "31.5 GB/s", 31.5e9],
    ["rate", "25e9", 25e9],
    ["flops", "312 TFLOP/s", 312e12],
    ["flag", "true", true],
    ["flag", "maybe", "maybe"],
    ["socket", "1", 1],
    ["socket", "auto", "auto"],
    ["texts", "a, b c ,,d", ["a", "b c", "d"]],
    ["texts", "甲，乙", ["甲", "乙"]],
    ["wholes", "1, 2,4", [1, 2, 4]],
    ["numbers", "0.5", 0.5],
    ["numbers", "0.1, 1", [0.1, 1]],
    ["bytesPerStage", "1 GiB, 512 MiB", [2 ** 30, 2 ** 29]],
    ["flagChoices", "false, true", [false, true]],
    ["text", "  kept as it is ", "  kept as it is "],
  ])("%s %s", (type, text, value) => {
    expect(readValue(type, text)).toEqual({ value });
  });

  it.each<[FieldType, string, string]>([
    ["whole", "8.5", "whole"],
    ["whole", "1e3", "whole"],
    ["number", "Infinity", "number"],
    ["number", "0x10", "number"],
    ["bytes", "80 Gigs", "bytes"],
    ["rate", "fast", "rate"],
    ["flops", "1 GB", "flops"],
    ["wholes", "1, two", "wholes"],
    ["numbers", "1;2", "numbers"],
  ])("%s %s is none", (type, text, wanted) => {
    expect(readValue(type, text)).toEqual({ wanted });
  });
});

describe("a value in a field", () => {
  it.each<[FieldType, unknown, string | null]>([
    ["bytes", 80 * 2 ** 30, "80 GiB"],
    ["bytes", 40_000_000_000, "40 GB"],
    ["bytes", 42_294_690_447, "42294690447"],
    ["rate", 31.5e9, "31.5 GB/s"],
    ["rate", 31.4999e9, "31.4999 GB/s"],
    ["flops", 312e12, "312 TFLOP/s"],
    ["flag", "yes", null],
    ["whole", "8", null],
    ["numbers", [0.1, 1], "0.1, 1"],
    ["texts", ["a", "b"], "a, b"],
    ["texts", ["a, b"], null],
    ["bytesPerStage", [2 ** 30, null], null],
    ["text", { a: 1 }, null],
  ])("%s %s", (type, value, text) => {
    expect(showValue(type, value as never)).toBe(text);
  });

  it("comes back as it was", () => {
    for (const value of [1, 1000, 2 ** 20, 3 * 2 ** 29, 123_456_789, 5e9, 2 ** 53 - 1]) {
      const text = showValue("bytes", value) ?? "";
      expect(readValue("bytes", text)).toEqual({ value });
    }
    for (const value of [1, 15.75e9, 7.7e12, 1 / 3, 123_456.789]) {
      expect(readValue("rate", showValue("rate", value) ?? "")).toEqual({ value });
    }
  });
});
