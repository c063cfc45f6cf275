import { expect, it } from "vitest";
import { droppedLines, linesOf, NO_LINES, withLines } from "../../src/live/log-tail";

const numbered = (from: number, count: number) =>
  Array.from({ length: count }, (_, i) => `line ${from + i}`);

it("adds lines, and none twice when they are told again", () => {
  const tail = withLines(withLines(NO_LINES, 0, numbered(0, 3)), 1, numbered(1, 4));
  expect(linesOf(tail)).toEqual(numbered(0, 5));
  expect(tail.next).toBe(5);
  expect(withLines(tail, 2, numbered(2, 3))).toBe(tail);
});

it("keeps the chunks before the last one as they are", () => {
  const tail = withLines(NO_LINES, 0, numbered(0, 450));
  const longer = withLines(tail, 450, numbered(450, 1));
  expect(tail.chunks.map((chunk) => chunk.lines.length)).toEqual([200, 200, 50]);
  expect(longer.chunks[0]).toBe(tail.chunks[0]);
  expect(longer.chunks[1]).toBe(tail.chunks[1]);
  expect(longer.chunks[2]?.lines).toHaveLength(51);
});

it("forgets the oldest lines beyond the most it keeps", () => {
  let tail = NO_LINES;
  for (let from = 0; from < 10_000; from += 1000) {
    tail = withLines(tail, from, numbered(from, 1000), 1000);
  }
  expect(linesOf(tail).at(-1)).toBe("line 9999");
  expect(linesOf(tail).length).toBeGreaterThanOrEqual(1000);
  expect(linesOf(tail).length).toBeLessThan(1200);
  expect(droppedLines(tail) + linesOf(tail).length).toBe(10_000);
});

it("goes on behind a gap with the right numbers", () => {
  const tail = withLines(withLines(NO_LINES, 0, ["a"]), 10, ["k", "l"]);
  expect(tail.chunks.map((chunk) => chunk.first)).toEqual([0, 10]);
  expect(tail.next).toBe(12);
});
