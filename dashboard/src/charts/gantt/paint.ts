/** What painters draw into, and lines through the schedule. */

import type { Frame, Scene } from "./scene";

/** What paths are drawn into; canvas and SVG renderers both have it. */
export interface PathTarget {
  moveTo(x: number, y: number): unknown;
  lineTo(x: number, y: number): unknown;
  rect(x: number, y: number, width: number, height: number): unknown;
  closePath(): unknown;
  /** The canvas that is drawn on, where one is. */
  getContext?(): CanvasRenderingContext2D | null;
}

export type Spot = { x: number; y: number; width: number; height: number };

export function xOf(frame: Frame, timeNs: number): number {
  return frame.x + ((timeNs - frame.startNs) / (frame.endNs - frame.startNs)) * frame.width;
}

/** Lines from the end of each operation to the start of the next; the boxes between stay legible. */
export function paintPath(
  path: PathTarget,
  scene: Scene,
  frame: Frame,
  ops: readonly number[],
): void {
  const { start_ns, end_ns } = scene.model.timeline.ops;
  const placeOf = new Map(scene.layout.rows.map((placed) => [placed.index, placed]));
  let before: { x: number; y: number } | null = null;
  for (const op of ops) {
    const placed = placeOf.get(scene.model.rowOf[op] ?? -1);
    if (!placed) {
      continue;
    }
    const y = frame.y + placed.top + placed.height / 2;
    const x0 = xOf(frame, start_ns[op] ?? 0);
    const x1 = xOf(frame, end_ns[op] ?? 0);
    if (before && x0 >= frame.x && before.x <= frame.x + frame.width) {
      path.moveTo(before.x, before.y);
      path.lineTo(x0, y);
    }
    before = { x: x1, y };
  }
}

/** A micro-batch's forward and backward operations in order of time. */
export function pathOfMicroBatch(scene: Scene, microBatch: number): number[] {
  const { op, micro_batch } = scene.model.timeline.ops;
  const found: number[] = [];
  for (let index = 0; index < op.length; index += 1) {
    if (micro_batch[index] === microBatch && (op[index] === "F" || op[index] === "B")) {
      found.push(index);
    }
  }
  return found;
}

export function paintOutline(path: PathTarget, scene: Scene, frame: Frame, op: number): void {
  const { start_ns, end_ns } = scene.model.timeline.ops;
  const placed = scene.layout.rows.find(({ index }) => index === scene.model.rowOf[op]);
  if (!placed) {
    return;
  }
  const x0 = Math.max(xOf(frame, start_ns[op] ?? 0), frame.x - 4);
  const x1 = Math.min(xOf(frame, end_ns[op] ?? 0), frame.x + frame.width + 4);
  if (x1 >= x0) {
    path.rect(x0, frame.y + placed.top + 1, Math.max(2, x1 - x0), placed.height - 2);
  }
}
