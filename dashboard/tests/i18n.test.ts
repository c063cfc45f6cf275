import { describe, expect, it } from "vitest";
import * as en from "../src/i18n/en";
import * as zh from "../src/i18n/zh";

function leaves(value: unknown, path: string): [string, unknown][] {
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).flatMap(([key, part]) => leaves(part, `${path}.${key}`));
  }
  return [[path, value]];
}

describe("the languages", () => {
  it("have the same texts with the same parameters, and none is empty", () => {
    const english = leaves({ ...en }, "");
    const chinese = new Map(leaves({ ...zh }, ""));
    expect([...chinese.keys()].sort()).toEqual(english.map(([path]) => path).sort());
    for (const [path, text] of english) {
      const other = chinese.get(path);
      expect(typeof other, path).toBe(typeof text);
      if (typeof text === "function" && typeof other === "function") {
        expect(other.length, path).toBeLessThanOrEqual(text.length);
      } else {
        expect(other, path).not.toBe("");
      }
    }
  });
});
