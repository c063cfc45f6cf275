/** Where everything lies in the chart, in pixels: rows of boxes, then the memory of devices and hosts. */

import type { MemorySteps, Op } from "../../api/types";
import type { GanttModel, Row } from "./model";

/** Which memory is shown: all of it as lanes, or one device's or host's with an axis. */
export type MemoryChoice = { kind: "all" } | { kind: "device" | "host"; number: number };

export interface PlacedRow {
  row: Row;
  /** The row's index in the model. */
  index: number;
  /** From the top of the rows. */
  top: number;
  height: number;
}

export interface MemoryLane {
  kind: "device" | "host";
  number: number;
  steps: MemorySteps;
  limitBytes: number | null;
  peakBytes: number;
  /** What the top of the lane stands for. */
  topBytes: number;
  top: number;
  height: number;
}

export interface GanttLayout {
  rows: readonly PlacedRow[];
  lanes: readonly MemoryLane[];
  rowsHeight: number;
  memoryHeight: number;
  /** From the top of the chart. */
  rowsTop: number;
  memoryTop: number;
  sliderTop: number;
  height: number;
  /** The step of the memory axis, where one device's or host's memory is shown. */
  bytesStep: number | null;
}

export const LEFT = 148;
export const RIGHT = 16;
export const SLIDER_HEIGHT = 22;
const TOP = 40;
const AXIS_HEIGHT = 30;
const TITLE_HEIGHT = 24;
const MEMORY_HEIGHT = 150;
const LANE_HEIGHT = 34;
const MANY_DEVICES = 8;
/** Head room above the limit and the peak, so that both can be seen. */
const HEAD_ROOM = 1.08;
const MEMORY_TICKS = 4;

export function layoutOf(
  model: GanttModel,
  memory: MemoryChoice,
  isOpShown: Record<Op, boolean>,
): GanttLayout {
  const rows = placeRows(model, isOpShown);
  const last = rows.at(-1);
  const rowsHeight = last ? last.top + last.height : 1;
  const lanes = placeLanes(model, memory);
  const memoryHeight =
    lanes.length === 0 ? 0 : memory.kind === "all" ? lanes.length * LANE_HEIGHT : MEMORY_HEIGHT;
  const memoryTop = TOP + rowsHeight + AXIS_HEIGHT + TITLE_HEIGHT;
  const sliderTop = memoryTop + memoryHeight + 10;
  return {
    rows,
    lanes,
    rowsHeight,
    memoryHeight,
    rowsTop: TOP,
    memoryTop,
    sliderTop,
    height: sliderTop + SLIDER_HEIGHT + 8,
    bytesStep: memory.kind === "all" ? null : niceStep((lanes[0]?.topBytes ?? 1) / MEMORY_TICKS),
  };
}

function placeRows(model: GanttModel, isOpShown: Record<Op, boolean>): PlacedRow[] {
  const devices = model.timeline.devices.length;
  const [tall, low] = devices > MANY_DEVICES ? [20, 13] : [28, 16];
  let top = 0;
  const placed: PlacedRow[] = [];
  model.rows.forEach((row, index) => {
    if ((row.kind === "offload" && !isOpShown.O) || (row.kind === "reload" && !isOpShown.R)) {
      return;
    }
    const height = row.kind === "device" ? tall : low;
    placed.push({ row, index, top, height });
    top += height;
  });
  return placed;
}

function placeLanes(model: GanttModel, choice: MemoryChoice): MemoryLane[] {
  const { devices, hosts } = model.timeline;
  const all = [
    ...devices.map((entry) => ({ kind: "device" as const, number: entry.device, entry })),
    ...hosts.map((entry) => ({ kind: "host" as const, number: entry.host, entry })),
  ];
  const chosen = all.filter(
    (lane) => choice.kind === "all" || (lane.kind === choice.kind && lane.number === choice.number),
  );
  const height = choice.kind === "all" ? LANE_HEIGHT : MEMORY_HEIGHT;
  return chosen.map(({ kind, number, entry }, position) => ({
    kind,
    number,
    steps: entry.memory,
    limitBytes: entry.limit_bytes,
    peakBytes: entry.peak_bytes,
    topBytes: Math.max(entry.limit_bytes ?? 0, entry.peak_bytes, 1) * HEAD_ROOM,
    top: position * height,
    height,
  }));
}

/** A power of two times 1, or a part of a GiB, so that the axis has round figures. */
function niceStep(about: number): number {
  return 2 ** Math.max(0, Math.round(Math.log2(Math.max(1, about))));
}
