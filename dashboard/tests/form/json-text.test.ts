import { describe, expect, it } from "vitest";
import { type JsonReading, readJsonObject } from "../../src/pages/new/json-text";

function fault(reading: JsonReading) {
  return "fault" in reading ? reading.fault : null;
}

describe("reading JSON", () => {
  it("takes what JSON allows", () => {
    const text =
      '\ufeff {"a": [1, -2.5e+3, true, null, "\\u00e9\\n\\""], "b": {"": {}}, "c": []}\n';
    expect(readJsonObject(text)).toEqual({
      document: { a: [1, -2500, true, null, 'é\n"'], b: { "": {} }, c: [] },
    });
  });

  it.each([
    ['{\n  "a": 1,\n  "b": }', 3, 8, "value", "}"],
    ['{"a": 1,\n}', 2, 1, "name", "}"],
    ['{"a" 1}', 1, 6, "colon", "1"],
    ['{"a": [1 2]}', 1, 10, "comma", "2"],
    ['{"a": 1', 1, 8, "comma", ""],
    ["", 1, 1, "value", ""],
    ['{"a": 1}\n x', 2, 2, "end", "x"],
    ['{"a": 01}', 1, 7, "value", "01"],
    ['{"a": NaN}', 1, 7, "value", "NaN"],
    ["{'a': 1}", 1, 2, "name", "'"],
    ['{"a": 1, "b": {"c": 1,\n "c": 2}}', 2, 2, "unique", '"c": 2}}'],
    ["[1]", 1, 1, "object", "["],
    ["null", 1, 1, "object", "n"],
  ])("says where %s is wrong", (text, line, column, expected, found) => {
    expect(fault(readJsonObject(text))).toEqual({ line, column, expected, found });
  });

  it("refuses what lies too deep without breaking", () => {
    const deep = `{"a": ${"[".repeat(100_000)}`;
    expect(fault(readJsonObject(deep))?.expected).toBe("depth");
  });

  it("accepts exactly what JSON.parse accepts", () => {
    const parts = [
      '{"a":',
      "1",
      "-",
      ".5",
      "e9",
      "}",
      "[",
      "]",
      ",",
      '"x"',
      " ",
      "true",
      '{"b":',
      "\\",
    ];
    let seed = 1;
    for (let run = 0; run < 3000; run += 1) {
      let text = '{"a":';
      for (let length = 0; length < 5; length += 1) {
        seed = (seed * 48_271) % 2_147_483_647;
        text += parts[seed % parts.length];
      }
      text += "}";
      let isJson = true;
      try {
        JSON.parse(text);
      } catch {
        isJson = false;
      }
      const found = fault(readJsonObject(text));
      expect(found === null || found.expected === "unique", text).toBe(isJson);
    }
  });
});
