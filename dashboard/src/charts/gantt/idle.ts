/** Idle time: shaded in the colour of its reason, with lines that tell reasons apart without colour. */

import type { SpanReason } from "../../api/types";
import { type PathTarget, type Spot, xOf } from "./paint";
import type { Frame, Scene } from "./scene";

const HATCH_STEP = 6;

/** The idle spans of one reason in view, each at least a pixel wide. */
function eachIdle(
  scene: Scene,
  frame: Frame,
  reason: SpanReason,
  visit: (spot: Spot) => void,
): void {
  const right = frame.x + frame.width;
  for (const { row, top, height } of scene.layout.rows) {
    let lastPixel = Number.NEGATIVE_INFINITY;
    for (const span of row.idle) {
      const x0 = Math.max(xOf(frame, span.start_ns), frame.x - HATCH_STEP);
      const x1 = Math.min(xOf(frame, span.end_ns), right);
      const left = Math.round(x0);
      if (span.reason !== reason || x1 <= frame.x || x0 >= right || left === lastPixel) {
        continue;
      }
      const width = Math.round(x1) - left;
      if (width < 1) {
        lastPixel = left;
      }
      visit({ x: left, y: frame.y + top + 1, width: Math.max(1, width), height: height - 2 });
    }
  }
}

export function paintIdle(path: PathTarget, scene: Scene, frame: Frame, reason: SpanReason): void {
  eachIdle(scene, frame, reason, ({ x, y, width, height }) => path.rect(x, y, width, height));
}

/** Each reason has lines of its own, so that colour is not all that tells. */
export function paintIdleMarks(
  path: PathTarget,
  scene: Scene,
  frame: Frame,
  reason: SpanReason,
): void {
  eachIdle(scene, frame, reason, (spot) => {
    if (spot.width >= 3) {
      hatch(path, spot, reason);
    }
  });
}

export function hatch(path: PathTarget, spot: Spot, reason: SpanReason): void {
  switch (reason) {
    case "dependency":
      slanted(path, spot, 1);
      break;
    case "memory":
      crossed(path, spot);
      break;
    case "link":
      slanted(path, spot, -1);
      break;
    case "slack":
      upright(path, spot);
      break;
    case "epilogue":
      upright(path, spot);
      level(path, spot, [0.5]);
      break;
    default:
      level(path, spot, reason === "fill" ? [0.5] : [0.33, 0.67]);
  }
}

export function crossed(path: PathTarget, spot: Spot): void {
  slanted(path, spot, 1);
  slanted(path, spot, -1);
}

/** Lines at 45 degrees, cut at the sides of the spot. */
function slanted(path: PathTarget, spot: Spot, direction: 1 | -1): void {
  const { x, y, width, height } = spot;
  const right = x + width;
  for (let foot = x - height + HATCH_STEP / 2; foot < right; foot += HATCH_STEP) {
    const from = Math.max(foot, x);
    const to = Math.min(foot + height, right);
    if (to <= from) {
      continue;
    }
    const yFrom = direction === 1 ? y + height - (from - foot) : y + (from - foot);
    const yTo = direction === 1 ? y + height - (to - foot) : y + (to - foot);
    path.moveTo(from, yFrom);
    path.lineTo(to, yTo);
  }
}

function upright(path: PathTarget, { x, y, width, height }: Spot): void {
  for (let at = x + HATCH_STEP / 2; at < x + width; at += HATCH_STEP) {
    path.moveTo(at, y);
    path.lineTo(at, y + height);
  }
}

function level(path: PathTarget, { x, y, width, height }: Spot, shares: readonly number[]): void {
  for (const share of shares) {
    const at = Math.round(y + height * share) + 0.5;
    path.moveTo(x, at);
    path.lineTo(x + width, at);
  }
}
