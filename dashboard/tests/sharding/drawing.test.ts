import { describe, expect, it } from "vitest";
import { layoutGraph, linePath, lineWidth } from "../../src/views/sharding/layout";
import type { EdgeRow } from "../../src/views/sharding/model";
import { fitted, initial, revealing, seen, zoomed } from "../../src/views/sharding/viewport";

function edge(index: number, from: number, to: number, bytes = 0): EdgeRow {
  return { index, from, to, bytes, tensors: [], isToNextLayer: from > to };
}

describe("layoutGraph", () => {
  it("draws the computation downwards, with the line to the next layer upwards", () => {
    const { nodes, edges } = layoutGraph(3, [edge(0, 0, 1, 5), edge(1, 1, 2), edge(2, 2, 0)]);
    const heights = nodes.map((node) => node.y);
    expect(heights).toEqual([...heights].sort((a, b) => a - b));
    const back = edges.find((place) => place.edge.index === 2);
    expect(back?.points[0]?.y).toBeGreaterThan(back?.points.at(-1)?.y ?? Number.POSITIVE_INFINITY);
  });

  it("keeps two tensors between the same operators apart", () => {
    expect(layoutGraph(2, [edge(0, 0, 1, 5), edge(1, 0, 1, 7)]).edges).toHaveLength(2);
  });

  it("copes with a graph of one operator", () => {
    expect(layoutGraph(1, []).nodes).toHaveLength(1);
  });
});

describe("linePath", () => {
  it("begins and ends at its points", () => {
    const path = linePath([
      { x: 0, y: 0 },
      { x: 5, y: 5 },
      { x: 0, y: 10 },
    ]);
    expect(path).toBe("M0,0 Q5,5 0,10");
    expect(linePath([{ x: 1, y: 2 }])).toBe("");
  });
});

describe("lineWidth", () => {
  it("grows with the bytes, and is thin for none", () => {
    expect(lineWidth(0, 100)).toBe(1);
    expect(lineWidth(100, 100)).toBe(8);
    expect(lineWidth(25, 100)).toBeLessThan(lineWidth(50, 100));
  });
});

describe("the viewport", () => {
  it("zooms around a point that stays where it is", () => {
    const before = { x: 10, y: 20, scale: 1 };
    const after = zoomed(before, { x: 110, y: 120 }, 2);
    expect(after).toEqual({ x: -90, y: -80, scale: 2 });
    expect(zoomed(after, { x: 0, y: 0 }, 1000).scale).toBe(4);
  });

  it("shows all of a drawing in the middle, never enlarged", () => {
    expect(fitted({ width: 400, height: 100 }, { width: 200, height: 200 })).toEqual({
      x: 0,
      y: 75,
      scale: 0.5,
    });
    expect(fitted({ width: 10, height: 10 }, { width: 20, height: 20 }).scale).toBe(1);
  });

  it("begins at the focus, readable, where all of it could not be read", () => {
    const drawing = { width: 100, height: 5000 };
    const screen = { width: 500, height: 500 };
    const view = initial(drawing, screen, { x: 50, y: 2500 });
    expect(view.scale).toBeGreaterThan(0.5);
    // The focus is in the middle of the screen.
    expect(view.y + 2500 * view.scale).toBeCloseTo(250);
    const part = seen(view, screen);
    expect(part.y + part.height / 2).toBeCloseTo(2500);
  });

  it("shows nothing beyond the drawing for a focus at its edge", () => {
    const drawing = { width: 100, height: 5000 };
    const screen = { width: 500, height: 500 };
    expect(initial(drawing, screen, { x: 50, y: 10 }).y).toBe(0);
    const last = initial(drawing, screen, { x: 50, y: 4990 });
    expect(last.y).toBeCloseTo(500 - 5000 * last.scale);
  });

  it("begins with all of a drawing that can be read", () => {
    const drawing = { width: 400, height: 400 };
    const screen = { width: 500, height: 500 };
    expect(initial(drawing, screen, { x: 0, y: 0 })).toEqual(fitted(drawing, screen));
  });

  it("moves only as far as needed to show a point", () => {
    const view = { x: 0, y: 0, scale: 1 };
    const screen = { width: 500, height: 500 };
    expect(revealing(view, { x: 250, y: 250 }, screen, 50)).toEqual(view);
    expect(revealing(view, { x: 250, y: 900 }, screen, 50).y).toBe(-450);
  });
});
