/** Colours and words of the chart, and how wide its files are. */

import type { Look } from "../../charts/gantt/layers";
import type { MemoryLane } from "../../charts/gantt/layout";
import type { GanttModel, Row } from "../../charts/gantt/model";
import { bytes, writerOf } from "../../format";
import { texts } from "../../i18n";
import { chartColours } from "../../palette";

/** Pixels for each box of the fullest row in a file, so that its number can be read. */
const PIXELS_PER_BOX = 22;
const LEAST_WIDTH = 1600;
/** Twice as many pixels are the most that browsers draw in one image. */
const MOST_WIDTH = 7600;

export function lookOf(model: GanttModel, dark: boolean): Look {
  const t = texts().gantt;
  const { makespan_ns, lower_bound_ns } = model.timeline;
  const write = writerOf("time", [makespan_ns]);
  return {
    colours: chartColours(dark),
    words: {
      row: rowName,
      lane: laneName,
      laneTitle,
      makespan: t.makespanLine(write(makespan_ns)),
      lowerBound: lower_bound_ns === null ? null : t.lowerBoundLine(write(lower_bound_ns)),
      memory: t.memoryOverTime,
    },
  };
}

/** "Device 3", or "O pcie 0 (0–1)" for the offloads of two devices over one link. */
export function rowName(row: Row): string {
  const t = texts().gantt;
  if (row.kind === "device") {
    return t.device(row.device);
  }
  const letter = row.kind === "offload" ? "O" : "R";
  return t.linkRow(letter, row.link ?? t.hostLink, listOf(row.devices));
}

/** A lane's name has its peak with it, as it has no axis. */
function laneName(lane: MemoryLane): string {
  const t = texts().gantt;
  const name = lane.kind === "device" ? t.device(lane.number) : t.host(lane.number);
  return `${name} · ${bytes(lane.peakBytes)}`;
}

function laneTitle(lane: MemoryLane): string {
  const t = texts().gantt;
  const name = lane.kind === "device" ? t.device(lane.number) : t.host(lane.number);
  return t.memoryOf(name, bytes(lane.peakBytes));
}

/** "0–3" for neighbours, "0, 4" otherwise. */
export function listOf(devices: readonly number[]): string {
  const first = devices[0] ?? 0;
  const areNeighbours = devices.every((device, index) => device === first + index);
  return areNeighbours && devices.length > 2
    ? `${first}–${first + devices.length - 1}`
    : devices.join(", ");
}

export function exportWidth(model: GanttModel): number {
  const most = Math.max(0, ...model.rows.map((row) => row.ops.length));
  return Math.min(MOST_WIDTH, Math.max(LEAST_WIDTH, most * PIXELS_PER_BOX));
}
