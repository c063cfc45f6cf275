import { describe, expect, it } from "vitest";
import { CLOSEST_NS, panBy, reveal, whole, zoomAt } from "../../src/charts/gantt/window";

const END = 1000;

describe("the part of time in view", () => {
  it("keeps the point in time under the pointer where it is", () => {
    const view = zoomAt(whole(END), 250, 0.5, END);
    expect(view).toEqual({ startNs: 125, endNs: 625 });
    expect((250 - view.startNs) / (view.endNs - view.startNs)).toBeCloseTo(0.25);
  });

  it("never leaves the schedule", () => {
    expect(zoomAt({ startNs: 0, endNs: 100 }, 50, 100, END)).toEqual(whole(END));
    expect(panBy({ startNs: 100, endNs: 300 }, -500, END)).toEqual({ startNs: 0, endNs: 200 });
    expect(panBy({ startNs: 100, endNs: 300 }, 5000, END)).toEqual({ startNs: 800, endNs: 1000 });
  });

  it("stops zooming in where there is nothing more to see", () => {
    const view = zoomAt(whole(END), 500, 1e-9, END);
    expect(view.endNs - view.startNs).toBe(CLOSEST_NS);
  });

  it("pans just so far that an operation is in view, and widens for a long one", () => {
    const view = { startNs: 400, endNs: 600 };
    expect(reveal(view, 450, 500, END)).toEqual(view);
    const left = reveal(view, 100, 150, END);
    expect(left.startNs).toBeLessThanOrEqual(100);
    expect(left.endNs - left.startNs).toBe(200);
    const right = reveal(view, 900, 950, END);
    expect(right.endNs).toBeGreaterThanOrEqual(950);
    const long = reveal(view, 100, 700, END);
    expect(long.startNs).toBeLessThanOrEqual(100);
    expect(long.endNs).toBeGreaterThanOrEqual(700);
  });
});
