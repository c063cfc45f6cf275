/** Memory over time: steps, the limit, and what is over it. */

import { crossed } from "./idle";
import type { MemoryLane } from "./layout";
import { type PathTarget, type Spot, xOf } from "./paint";
import type { Frame } from "./scene";
import { countUntil } from "./search";

export function yOfBytes(lane: MemoryLane, frame: Frame, bytes: number): number {
  const foot = frame.y + lane.top + lane.height;
  return foot - (bytes / lane.topBytes) * lane.height;
}

/**
 * The bytes held over time as steps. Steps that fall into the same column of pixels become one line
 * from the least to the most, so that no peak is lost however many there are.
 */
export function paintSteps(
  path: PathTarget,
  lane: MemoryLane,
  frame: Frame,
  isArea: boolean,
): void {
  const { at_ns, bytes } = lane.steps;
  const first = Math.max(0, countUntil(at_ns, frame.startNs) - 1);
  const foot = frame.y + lane.top + lane.height;
  const right = frame.x + frame.width;
  const left = Math.max(frame.x, xOf(frame, at_ns[first] ?? 0));
  let y = yOfBytes(lane, frame, bytes[first] ?? 0);
  if (isArea) {
    path.moveTo(left, foot);
    path.lineTo(left, y);
  } else {
    path.moveTo(left, y);
  }
  let at = first + 1;
  while (at < at_ns.length && (at_ns[at] ?? 0) <= frame.endNs) {
    const x = xOf(frame, at_ns[at] ?? 0);
    const column = Math.floor(x);
    let least = bytes[at] ?? 0;
    let most = least;
    let last = least;
    at += 1;
    while (at < at_ns.length && xOf(frame, at_ns[at] ?? 0) < column + 1) {
      last = bytes[at] ?? 0;
      least = Math.min(least, last);
      most = Math.max(most, last);
      at += 1;
    }
    path.lineTo(x, y);
    path.lineTo(x, yOfBytes(lane, frame, most));
    path.lineTo(x, yOfBytes(lane, frame, least));
    y = yOfBytes(lane, frame, last);
    path.lineTo(x, y);
  }
  path.lineTo(right, y);
  if (isArea) {
    path.lineTo(right, foot);
    path.closePath();
  }
}

/** Where more is held than the limit allows. */
function eachOverLimit(lane: MemoryLane, frame: Frame, visit: (spot: Spot) => void): void {
  const { at_ns, bytes } = lane.steps;
  const limit = lane.limitBytes;
  if (limit === null || lane.peakBytes <= limit) {
    return;
  }
  const bottom = yOfBytes(lane, frame, limit);
  for (let at = Math.max(0, countUntil(at_ns, frame.startNs) - 1); at < at_ns.length; at += 1) {
    const x = Math.max(frame.x, xOf(frame, at_ns[at] ?? 0));
    if (x >= frame.x + frame.width) {
      return;
    }
    const held = bytes[at] ?? 0;
    if (held > limit) {
      const until = Math.min(frame.x + frame.width, xOf(frame, at_ns[at + 1] ?? frame.endNs));
      const y = yOfBytes(lane, frame, held);
      visit({ x, y, width: Math.max(1, until - x), height: bottom - y });
    }
  }
}

export function paintOverLimit(path: PathTarget, lane: MemoryLane, frame: Frame): void {
  eachOverLimit(lane, frame, ({ x, y, width, height }) => path.rect(x, y, width, height));
}

export function paintOverLimitMarks(path: PathTarget, lane: MemoryLane, frame: Frame): void {
  eachOverLimit(lane, frame, (spot) => crossed(path, spot));
}

export function paintLaneFoot(path: PathTarget, lane: MemoryLane, frame: Frame): void {
  const y = Math.round(frame.y + lane.top + lane.height) - 0.5;
  path.moveTo(frame.x, y);
  path.lineTo(frame.x + frame.width, y);
}

export function paintLimit(path: PathTarget, lane: MemoryLane, frame: Frame): void {
  if (lane.limitBytes !== null) {
    const y = yOfBytes(lane, frame, lane.limitBytes);
    path.moveTo(frame.x, y);
    path.lineTo(frame.x + frame.width, y);
  }
}
