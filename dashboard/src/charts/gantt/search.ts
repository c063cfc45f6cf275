/** Binary searches in what is sorted by time. */

import type { GanttModel, IdleSpan, Row } from "./model";

/** How many entries of a sorted list are at or before a value. */
export function countUntil(sorted: ArrayLike<number>, value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? 0) <= value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/** The operation of a row that runs at a time, or one within a tolerance that is too short to be met. */
export function operationAt(row: Row, timeNs: number, toleranceNs: number): number | null {
  const next = countUntil(row.startNs, timeNs);
  const last = next - 1;
  if (last >= 0 && timeNs < (row.endNs[last] ?? 0)) {
    return row.ops[last] ?? null;
  }
  const isNear = (place: number, awayNs: number) =>
    awayNs < toleranceNs &&
    (row.endNs[place] ?? 0) - (row.startNs[place] ?? 0) < toleranceNs &&
    row.ops[place] !== undefined;
  const sinceLast = timeNs - (row.endNs[last] ?? 0);
  const untilNext = (row.startNs[next] ?? 0) - timeNs;
  const isLastNear = isNear(last, sinceLast);
  const isNextNear = isNear(next, untilNext);
  if (isLastNear && (!isNextNear || sinceLast <= untilNext)) {
    return row.ops[last] ?? null;
  }
  return isNextNear ? (row.ops[next] ?? null) : null;
}

export function idleAt(row: Row, timeNs: number): IdleSpan | null {
  let low = 0;
  let high = row.idle.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((row.idle[middle]?.start_ns ?? 0) <= timeNs) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const span = row.idle[low - 1];
  return span && timeNs < span.end_ns ? span : null;
}

/** The bytes that are held at a time; they stay the same from each step to the next. */
export function bytesAt(steps: { at_ns: number[]; bytes: number[] }, timeNs: number): number {
  return steps.bytes[countUntil(steps.at_ns, timeNs) - 1] ?? 0;
}

/** The operation before or after one in its row. */
export function besides(
  model: GanttModel,
  op: number,
  step: -1 | 1,
  isShown: (op: number) => boolean,
): number {
  const row = model.rows[model.rowOf[op] ?? 0];
  for (let place = (model.placeOf[op] ?? 0) + step; ; place += step) {
    const found = row?.ops[place];
    if (found === undefined) {
      return op;
    }
    if (isShown(found)) {
      return found;
    }
  }
}

/** The operation nearest in time to one, in the next row above or below that has any. */
export function acrossRows(
  model: GanttModel,
  op: number,
  step: -1 | 1,
  isShown: (op: number) => boolean,
): number {
  const timeNs = middleOf(model, op);
  for (let index = (model.rowOf[op] ?? 0) + step; model.rows[index]; index += step) {
    const found = nearest(model, index, timeNs, isShown);
    if (found !== null) {
      return found;
    }
  }
  return op;
}

/** The shown operation of a row whose middle is nearest to a time. */
export function nearest(
  model: GanttModel,
  rowIndex: number,
  timeNs: number,
  isShown: (op: number) => boolean,
): number | null {
  let found: number | null = null;
  let distance = Number.POSITIVE_INFINITY;
  for (const op of model.rows[rowIndex]?.ops ?? []) {
    const away = Math.abs(middleOf(model, op) - timeNs);
    if (away < distance && isShown(op)) {
      found = op;
      distance = away;
    }
  }
  return found;
}

export function middleOf(model: GanttModel, op: number): number {
  const { start_ns, end_ns } = model.timeline.ops;
  return ((start_ns[op] ?? 0) + (end_ns[op] ?? 0)) / 2;
}
