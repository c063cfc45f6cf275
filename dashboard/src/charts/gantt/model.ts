/** A timeline as rows of boxes in typed arrays, which a chart can search and draw fast. */

import type { DeviceTimeline, Op, SpanReason, Timeline } from "../../api/types";

export const OPERATIONS: readonly Op[] = ["F", "B", "W", "O", "R"];

export type RowKind = "device" | "offload" | "reload";

/** The boxes of one row, in order of time; no two of them overlap. */
export interface Row {
  kind: RowKind;
  /** The device, or the first device that the link serves. */
  device: number;
  link: string | null;
  /** The devices that the link serves; the device alone for a row of computation. */
  devices: readonly number[];
  ops: Int32Array;
  startNs: Float64Array;
  endNs: Float64Array;
  idle: readonly IdleSpan[];
}

export interface IdleSpan {
  start_ns: number;
  end_ns: number;
  reason: SpanReason;
  next: number | null;
}

export interface GanttModel {
  timeline: Timeline;
  rows: readonly Row[];
  /** The row and the place in it of each operation. */
  rowOf: Int32Array;
  placeOf: Int32Array;
  /** How many stages of the same device come before each stage. */
  chunkOf: Int32Array;
  /** The most stages that a device has. */
  chunks: number;
  /** Whether an operation lies on the critical path. */
  isCritical: Uint8Array;
  /** The operations whose start was bound by the end of each operation. */
  successors: readonly (readonly number[])[];
  /** Until when there is something to see. */
  endNs: number;
}

/** `untilNs`: what the time axis reaches at least, where several charts share one. */
export function buildModel(timeline: Timeline, untilNs = 0): GanttModel {
  const rows = buildRows(timeline);
  const count = timeline.ops.op.length;
  const rowOf = new Int32Array(count).fill(-1);
  const placeOf = new Int32Array(count).fill(-1);
  let endNs = Math.max(timeline.makespan_ns, timeline.lower_bound_ns ?? 0, untilNs);
  rows.forEach((row, rowIndex) => {
    row.ops.forEach((op, place) => {
      rowOf[op] = rowIndex;
      placeOf[op] = place;
    });
    endNs = Math.max(endNs, row.endNs.at(-1) ?? 0);
  });
  const isCritical = new Uint8Array(count);
  for (const op of timeline.critical_path) {
    isCritical[op] = 1;
  }
  const chunkOf = chunksOf(timeline);
  return {
    timeline,
    rows,
    rowOf,
    placeOf,
    chunkOf,
    chunks: Math.max(1, ...chunkOf.map((chunk) => chunk + 1)),
    isCritical,
    successors: successorsOf(timeline),
    endNs: Math.max(endNs, 1),
  };
}

/** The rows in the order in which they are drawn: a link's rows below the last device it serves. */
function buildRows(timeline: Timeline): Row[] {
  const { op, stage } = timeline.ops;
  const linkOf = new Map(timeline.devices.map((entry) => [entry.device, entry.host_link]));
  const opsOf = new Map<string, number[]>();
  for (let index = 0; index < op.length; index += 1) {
    const device = deviceOf(timeline, stage[index] ?? 0);
    const key = rowKey(op[index] ?? "F", device, linkOf.get(device) ?? null);
    const list = opsOf.get(key);
    if (list) {
      list.push(index);
    } else {
      opsOf.set(key, [index]);
    }
  }
  const rows: Row[] = [];
  timeline.devices.forEach((entry, position) => {
    const { device, host_link: link } = entry;
    rows.push(
      makeRow(
        timeline,
        "device",
        [device],
        link,
        opsOf.get(rowKey("F", device, link)),
        spansOf(timeline, entry, opsOf.get(rowKey("F", device, link))),
      ),
    );
    const served = timeline.devices
      .filter((other) => other.device === device || (link !== null && other.host_link === link))
      .map((other) => other.device);
    const isLast = !timeline.devices
      .slice(position + 1)
      .some((later) => link !== null && later.host_link === link);
    if (!isLast) {
      return;
    }
    for (const kind of ["offload", "reload"] as const) {
      const ops = opsOf.get(rowKey(kind === "offload" ? "O" : "R", device, link));
      if (ops) {
        rows.push(makeRow(timeline, kind, served, link, ops, []));
      }
    }
  });
  return rows;
}

/** When a device runs no operation, in order of time, its epilogue after the last one included. */
function spansOf(
  timeline: Timeline,
  device: DeviceTimeline,
  ops: readonly number[] = [],
): readonly IdleSpan[] {
  const length = device.epilogue_ns ?? 0;
  if (length === 0) {
    return device.idle;
  }
  const start_ns = Math.max(0, ...ops.map((op) => timeline.ops.end_ns[op] ?? 0));
  const epilogue = { start_ns, end_ns: start_ns + length, reason: "epilogue", next: null } as const;
  return [...device.idle, epilogue].sort((a, b) => a.start_ns - b.start_ns);
}

function rowKey(op: Op, device: number, link: string | null): string {
  if (op !== "O" && op !== "R") {
    return `device ${device}`;
  }
  return link === null ? `${op} device ${device}` : `${op} link ${link}`;
}

function makeRow(
  timeline: Timeline,
  kind: RowKind,
  devices: readonly number[],
  link: string | null,
  ops: readonly number[] = [],
  idle: readonly IdleSpan[],
): Row {
  const { start_ns, end_ns } = timeline.ops;
  return {
    kind,
    device: devices[0] ?? 0,
    link,
    devices,
    ops: Int32Array.from(ops),
    startNs: Float64Array.from(ops, (op) => start_ns[op] ?? 0),
    endNs: Float64Array.from(ops, (op) => end_ns[op] ?? 0),
    idle,
  };
}

export function deviceOf(timeline: Timeline, stage: number): number {
  return timeline.stages[stage]?.device ?? 0;
}

function chunksOf(timeline: Timeline): Int32Array {
  const seen = new Map<number, number>();
  return Int32Array.from(timeline.stages, ({ device }) => {
    const chunk = seen.get(device) ?? 0;
    seen.set(device, chunk + 1);
    return chunk;
  });
}

function successorsOf(timeline: Timeline): number[][] {
  const successors: number[][] = timeline.ops.op.map(() => []);
  timeline.ops.after.forEach((before, index) => {
    if (before !== null) {
      successors[before]?.push(index);
    }
  });
  return successors;
}
