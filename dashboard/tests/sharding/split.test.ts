import { describe, expect, it } from "vitest";
import { splitKind, splitOf, splitText } from "../../src/views/sharding/split";

describe("splitOf", () => {
  it("reads degrees, a split sequence and repeated work", () => {
    expect(splitOf("d2-r1-c4")).toEqual({
      data: 2,
      row: 1,
      column: 4,
      spare: 1,
      isSequenceSplit: false,
    });
    expect(splitOf("d1-r2-c1-sp-x2")).toMatchObject({ row: 2, spare: 2, isSequenceSplit: true });
  });

  it("does not guess at other names", () => {
    expect(splitOf("ring")).toBeNull();
    expect(splitOf("d2-r1")).toBeNull();
  });
});

describe("splitKind", () => {
  it.each([
    ["d8-r1-c1", "D"],
    ["d1-r8-c1", "R"],
    ["d1-r1-c8", "C"],
    ["d2-r2-c2", "DRC"],
    ["d2-r1-c4", "DC"],
    ["d1-r1-c1-x4", "W"],
  ])("%s is %s", (name, kind) => {
    const split = splitOf(name);
    expect(split && splitKind(split)).toBe(kind);
  });
});

describe("splitText", () => {
  it("is short, and the name itself where that is no split", () => {
    expect(splitText("d2-r1-c4-sp")).toBe("d2 r1 c4");
    expect(splitText("d1-r1-c2-x2")).toBe("d1 r1 c2 ×2");
    expect(splitText("<img>")).toBe("<img>");
  });
});
