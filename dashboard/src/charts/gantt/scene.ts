/** What is drawn, and the boxes of the part in view as rectangles in pixels. */

import type { Op } from "../../api/types";
import { OPERATION_COLOURS } from "../../palette";
import type { GanttLayout } from "./layout";
import { type GanttModel, OPERATIONS } from "./model";
import { countUntil } from "./search";
import type { TextSpot } from "./text";
import type { TimeWindow } from "./window";

/** What a chart shows; changed in place, and drawn with the next frame. */
export interface Scene {
  model: GanttModel;
  layout: GanttLayout;
  view: TimeWindow;
  isOpShown: Record<Op, boolean>;
  /** The micro-batch whose path is lit up. */
  microBatch: number | null;
  showsCriticalPath: boolean;
  selected: number | null;
}

/** Where a grid lies, and which time its left and right edges stand for. */
export interface Frame {
  x: number;
  y: number;
  width: number;
  height: number;
  startNs: number;
  endNs: number;
}

/** Rectangles one after another: x, y, width, height of each. */
export class Rectangles {
  private values = new Float64Array(256);
  length = 0;

  clear(): void {
    this.length = 0;
  }

  add(x: number, y: number, width: number, height: number): void {
    if (this.length + 4 > this.values.length) {
      const longer = new Float64Array(this.values.length * 2);
      longer.set(this.values);
      this.values = longer;
    }
    this.values[this.length] = x;
    this.values[this.length + 1] = y;
    this.values[this.length + 2] = width;
    this.values[this.length + 3] = height;
    this.length += 4;
  }

  each(visit: (x: number, y: number, width: number, height: number) => void): void {
    const { values } = this;
    for (let at = 0; at < this.length; at += 4) {
      visit(values[at] ?? 0, values[at + 1] ?? 0, values[at + 2] ?? 0, values[at + 3] ?? 0);
    }
  }
}

/** The boxes in view, by operation and by whether something else is lit up. */
export interface Boxes {
  lit: Record<Op, Rectangles>;
  dim: Record<Op, Rectangles>;
  /** Marks of the chunk: the higher, the later the stage on its device. */
  chunks: Rectangles;
  labels: TextSpot[];
}

export function emptyBoxes(): Boxes {
  const each = () =>
    Object.fromEntries(OPERATIONS.map((op) => [op, new Rectangles()])) as Record<Op, Rectangles>;
  return { lit: each(), dim: each(), chunks: new Rectangles(), labels: [] };
}

/** From this width on a box is set apart from the next by a gap of one pixel. */
const GAP_FROM = 4;
const CHUNK_SHARE = 0.32;
const PADDING = 3;
const DIM_TEXT = 0.35;
/** A label of a link's row is smaller. */
const LOW_ROW = 16;

/** Work out the boxes in view; those narrower than a pixel share it with their neighbours. */
export function collectBoxes(scene: Scene, frame: Frame, boxes: Boxes): void {
  for (const op of OPERATIONS) {
    boxes.lit[op].clear();
    boxes.dim[op].clear();
  }
  boxes.chunks.clear();
  boxes.labels.length = 0;
  scene.layout.rows.forEach((_, place) => {
    collectRow(scene, frame, boxes, place);
  });
}

function collectRow(scene: Scene, frame: Frame, boxes: Boxes, place: number): void {
  const placed = scene.layout.rows[place];
  if (!placed) {
    return;
  }
  const { row } = placed;
  const { op: kinds, stage, micro_batch: microBatches } = scene.model.timeline.ops;
  const { chunkOf, chunks } = scene.model;
  const scale = frame.width / (frame.endNs - frame.startNs);
  const y = frame.y + placed.top + 1;
  const height = placed.height - 2;
  const fontSize = placed.height <= LOW_ROW ? 9 : 11;
  const right = frame.x + frame.width;
  let lastPixel = Number.NEGATIVE_INFINITY;
  for (let at = countUntil(row.endNs, frame.startNs); at < row.ops.length; at += 1) {
    const x0 = frame.x + ((row.startNs[at] ?? 0) - frame.startNs) * scale;
    if (x0 >= right) {
      break;
    }
    const index = row.ops[at] ?? 0;
    const kind = kinds[index] ?? "F";
    if (!scene.isOpShown[kind]) {
      continue;
    }
    const x1 = frame.x + ((row.endNs[at] ?? 0) - frame.startNs) * scale;
    const isLit = isLitUp(scene, index);
    const left = Math.round(x0);
    const isNarrow = x1 - x0 < 1;
    if (isNarrow && isLit !== true && left === lastPixel) {
      continue;
    }
    lastPixel = isNarrow ? left : Number.NEGATIVE_INFINITY;
    const width = isNarrow ? 1 : Math.max(1, Math.round(x1) - left);
    const drawn = width >= GAP_FROM ? width - 1 : width;
    // What is far outside of the view is cut off: some renderers lose precision out there.
    const cutLeft = Math.max(left, frame.x - 2);
    const cutRight = Math.min(left + drawn, right + 2);
    (isLit === false ? boxes.dim : boxes.lit)[kind].add(cutLeft, y, cutRight - cutLeft, height);
    const stageIndex = stage[index] ?? 0;
    if (chunks > 1 && width >= 2) {
      const mark = (height * CHUNK_SHARE * (chunkOf[stageIndex] ?? 0)) / (chunks - 1);
      if (mark > 0) {
        boxes.chunks.add(cutLeft, y + height - mark, cutRight - cutLeft, mark);
      }
    }
    const seen = Math.min(right, left + drawn) - Math.max(frame.x, left);
    const text = labelOf(kind, microBatches[index] ?? 0, stageIndex, seen, fontSize);
    if (text !== null) {
      boxes.labels.push({
        text,
        x: Math.max(frame.x, left) + seen / 2,
        y: y + height / 2,
        fontSize,
        fill: OPERATION_COLOURS[kind].text,
        align: "center",
        opacity: isLit === false ? DIM_TEXT : 1,
      });
    }
  }
}

/** Whether an operation is among those lit up; null where nothing is. */
export function isLitUp(scene: Scene, op: number): boolean | null {
  if (scene.microBatch === null && !scene.showsCriticalPath) {
    return null;
  }
  return (
    (scene.microBatch !== null && scene.model.timeline.ops.micro_batch[op] === scene.microBatch) ||
    (scene.showsCriticalPath && scene.model.isCritical[op] === 1)
  );
}

/** As much as fits: "12", "F12", or "F12 · S3"; null where not even the number does. */
function labelOf(
  op: Op,
  microBatch: number,
  stage: number,
  width: number,
  fontSize: number,
): string | null {
  const room = width - PADDING;
  const perCharacter = fontSize * 0.6;
  const short = String(microBatch);
  if (room < short.length * perCharacter) {
    return null;
  }
  const long = `${op}${short} · S${stage}`;
  if (room >= long.length * perCharacter + PADDING) {
    return long;
  }
  return room >= (short.length + 1) * perCharacter + PADDING ? `${op}${short}` : short;
}
