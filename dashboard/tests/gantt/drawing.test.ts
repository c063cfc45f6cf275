import { describe, expect, it } from "vitest";
import type { Op } from "../../src/api/types";
import { hitAt } from "../../src/charts/gantt/hit";
import { layoutOf, type MemoryLane } from "../../src/charts/gantt/layout";
import { paintOverLimit, paintSteps, yOfBytes } from "../../src/charts/gantt/memory";
import { buildModel } from "../../src/charts/gantt/model";
import type { PathTarget } from "../../src/charts/gantt/paint";
import { collectBoxes, emptyBoxes, type Frame, type Scene } from "../../src/charts/gantt/scene";
import { syntheticTimeline } from "./synthetic";

const ALL: Record<Op, boolean> = { F: true, B: true, W: true, O: true, R: true };

function sceneOf(devices: number, microBatches: number): Scene {
  const model = buildModel(syntheticTimeline({ devices, microBatches }));
  return {
    model,
    layout: layoutOf(model, { kind: "all" }, ALL),
    view: { startNs: 0, endNs: model.endNs },
    isOpShown: ALL,
    microBatch: null,
    showsCriticalPath: false,
    selected: null,
  };
}

function frameOf(scene: Scene, width: number, startNs = 0, endNs = scene.model.endNs): Frame {
  return { x: 100, y: 40, width, height: scene.layout.rowsHeight, startNs, endNs };
}

function collected(scene: Scene, frame: Frame) {
  const boxes = emptyBoxes();
  collectBoxes(scene, frame, boxes);
  return boxes;
}

function countOf(rectangles: Record<Op, { length: number }>): number {
  return Object.values(rectangles).reduce((sum, { length }) => sum + length / 4, 0);
}

/** A path that keeps the points and the rectangles that are drawn. */
function recorder() {
  const points: { x: number; y: number }[] = [];
  const rectangles: { x: number; y: number; width: number; height: number }[] = [];
  const path: PathTarget = {
    moveTo: (x, y) => points.push({ x, y }),
    lineTo: (x, y) => points.push({ x, y }),
    rect: (x, y, width, height) => rectangles.push({ x, y, width, height }),
    closePath: () => {},
  };
  return { path, points, rectangles };
}

describe("boxes", () => {
  it("draws a box for each operation where there is room", () => {
    const scene = sceneOf(2, 4);
    const boxes = collected(scene, frameOf(scene, 5000));
    expect(countOf(boxes.lit)).toBe(scene.model.timeline.ops.op.length);
    expect(boxes.labels).toHaveLength(scene.model.timeline.ops.op.length);
    expect(boxes.labels.some(({ text }) => text.includes("S1"))).toBe(true);
  });

  it("draws at most a box per pixel of a row", () => {
    const scene = sceneOf(2, 400);
    const boxes = collected(scene, frameOf(scene, 50));
    expect(countOf(boxes.lit)).toBeLessThanOrEqual(scene.layout.rows.length * 51);
    expect(boxes.labels).toHaveLength(0);
  });

  it("loses nothing of what is lit up, however narrow", () => {
    const scene = { ...sceneOf(2, 400), microBatch: 250 };
    const boxes = collected(scene, frameOf(scene, 50));
    const own = scene.model.timeline.ops.micro_batch.filter((batch) => batch === 250);
    expect(countOf(boxes.lit)).toBe(own.length);
    expect(countOf(boxes.dim)).toBeGreaterThan(0);
  });

  it("draws only what is in view and what is shown", () => {
    const scene = sceneOf(2, 100);
    const { endNs } = scene.model;
    const half = collected(scene, frameOf(scene, 5000, endNs * 0.4, endNs * 0.5));
    expect(countOf(half.lit)).toBeLessThan(scene.model.timeline.ops.op.length / 4);
    expect(countOf(half.lit)).toBeGreaterThan(0);
    const without = collected({ ...scene, isOpShown: { ...ALL, F: false } }, frameOf(scene, 5000));
    expect(without.lit.F.length).toBe(0);
    expect(without.lit.B.length).toBeGreaterThan(0);
  });
});

describe("memory", () => {
  const lane: MemoryLane = {
    kind: "device",
    number: 0,
    steps: { at_ns: [0, 500, 501, 502, 900], bytes: [10, 20, 90, 30, 40] },
    limitBytes: 60,
    peakBytes: 90,
    topBytes: 100,
    top: 0,
    height: 100,
  };
  const frame: Frame = { x: 0, y: 0, width: 10, height: 100, startNs: 0, endNs: 1000 };

  it("keeps a peak that lasts for less than a pixel", () => {
    const { path, points } = recorder();
    paintSteps(path, lane, frame, false);
    expect(points[0]).toEqual({ x: 0, y: 90 });
    expect(Math.min(...points.map(({ y }) => y))).toBe(yOfBytes(lane, frame, 90));
    expect(points.at(-1)).toEqual({ x: 10, y: 60 });
  });

  it("starts with what was held before the view", () => {
    const { path, points } = recorder();
    paintSteps(path, lane, { ...frame, startNs: 600, endNs: 800 }, false);
    expect(points.map(({ y }) => y)).toEqual([70, 70]);
  });

  it("marks what is over the limit", () => {
    const { path, rectangles } = recorder();
    paintOverLimit(path, lane, frame);
    expect(rectangles).toEqual([{ x: 5.01, y: 10, width: 1, height: 30 }]);
    paintOverLimit(path, { ...lane, limitBytes: null }, frame);
    expect(rectangles).toHaveLength(1);
  });
});

describe("what lies under the pointer", () => {
  it("is an operation, idle time, or memory", () => {
    const scene = sceneOf(2, 4);
    const { model, layout } = scene;
    const first = model.rows[0]?.ops[0] ?? -1;
    const startNs = model.timeline.ops.start_ns[first] ?? 0;
    const find = (timeNs: number, y: number) => hitAt(model, layout, () => true, timeNs, y, 0);
    expect(find(startNs, layout.rowsTop + 5).op).toBe(first);
    const idle = model.timeline.devices[1]?.idle[0];
    const second = layout.rows.find(({ row }) => row.kind === "device" && row.device === 1);
    expect(find(idle?.start_ns ?? 0, layout.rowsTop + (second?.top ?? 0) + 5).idle).toBe(idle);
    expect(find(startNs, layout.memoryTop + 5).lane?.number).toBe(0);
    expect(hitAt(model, layout, () => false, startNs, layout.rowsTop + 5, 0).op).toBeNull();
  });
});
