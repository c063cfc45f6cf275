/**
 * Texts of the chart. On the screen one element draws all of them straight onto the canvas: a thousand text
 * elements would take longer than a frame. An exported file has a text element for each.
 */

import type { PathTarget } from "./paint";
import { painted } from "./painter";

export interface TextSpot {
  text: string;
  x: number;
  /** The middle of the text's height. */
  y: number;
  fontSize: number;
  fill: string;
  align: "left" | "center" | "right";
  opacity: number;
}

export type TextMode = "canvas" | "elements";

const FONT = "system-ui, sans-serif";

export function textLayer(mode: TextMode, spots: readonly TextSpot[]) {
  return mode === "canvas" ? painted((path) => drawTexts(path, spots), {}) : elements(spots);
}

function drawTexts(path: PathTarget, spots: readonly TextSpot[]): void {
  const context = path.getContext?.();
  if (!context) {
    return;
  }
  // The renderer does not set again what it believes to be set.
  context.save();
  context.textBaseline = "middle";
  let fontSize = 0;
  let fill = "";
  for (const spot of spots) {
    if (spot.fontSize !== fontSize) {
      fontSize = spot.fontSize;
      context.font = `${fontSize}px ${FONT}`;
    }
    if (spot.fill !== fill) {
      fill = spot.fill;
      context.fillStyle = fill;
    }
    context.textAlign = spot.align;
    context.globalAlpha = spot.opacity;
    context.fillText(spot.text, spot.x, spot.y + 0.5);
  }
  context.restore();
}

function elements(spots: readonly TextSpot[]) {
  return {
    type: "group",
    silent: true,
    children: spots.map(({ text, x, y, fontSize, fill, align, opacity }) => ({
      type: "text",
      silent: true,
      style: {
        text,
        x,
        y,
        fill,
        opacity,
        align,
        verticalAlign: "middle",
        font: `${fontSize}px ${FONT}`,
      },
    })),
  };
}

/** Cut a text to a width; letters are taken to be as wide as they mostly are. */
export function shortened(text: string, width: number, fontSize: number): string {
  let used = 0;
  for (let at = 0; at < text.length; at += 1) {
    used += fontSize * ((text.codePointAt(at) ?? 0) > 0x2e7f ? 1 : 0.58);
    if (used > width && at > 0) {
      return `${text.slice(0, at - 1)}…`;
    }
  }
  return text;
}
