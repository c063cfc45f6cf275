/** What lies under a point of the chart. */

import type { GanttLayout, MemoryLane } from "./layout";
import type { GanttModel, IdleSpan, Row } from "./model";
import { idleAt, operationAt } from "./search";

export interface Hit {
  timeNs: number;
  op: number | null;
  idle: IdleSpan | null;
  row: Row | null;
  lane: MemoryLane | null;
}

/** `y` counts from the chart's top; an operation is hit from within the tolerance, too. */
export function hitAt(
  model: GanttModel,
  layout: GanttLayout,
  isVisible: (op: number) => boolean,
  timeNs: number,
  y: number,
  toleranceNs: number,
): Hit {
  const inRows = y - layout.rowsTop;
  const placed = layout.rows.find(({ top, height }) => inRows >= top && inRows < top + height);
  const inMemory = y - layout.memoryTop;
  const lane = layout.lanes.find(({ top, height }) => inMemory >= top && inMemory < top + height);
  const row = placed ? (model.rows[placed.index] ?? null) : null;
  const idle = row ? idleAt(row, timeNs) : null;
  const found = row ? operationAt(row, timeNs, toleranceNs) : null;
  const op = found !== null && isVisible(found) ? found : null;
  return { timeNs, op, idle: op === null ? idle : null, row, lane: lane ?? null };
}
