/** Axes of bytes with marks at round numbers of KiB, MiB, GiB. */

import { bytes } from "../../format";
import type { ChartColours } from "../../palette";

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500];
const MARKS = 4;

/** The distance of marks, so that about four of them are below the largest value. */
export function bytesInterval(most: number): number {
  const ideal = most / MARKS;
  let unit = 1;
  while (ideal >= unit * 1024) {
    unit *= 1024;
  }
  return unit * (STEPS.find((step) => step * unit >= ideal) ?? 1024);
}

/** A linear axis from zero to beyond the largest value. */
export function bytesAxis(most: number, colours: ChartColours) {
  const interval = bytesInterval(Math.max(1, most));
  return {
    type: "value" as const,
    min: 0,
    max: interval * Math.max(1, Math.ceil((most / interval) * 1.001)),
    interval,
    axisLabel: markLabel(roundBytes, colours),
  };
}

/** A figure with its unit without the digits that a round number does not need. */
export function withoutZeros(text: string): string {
  return text.replace(/\.0+(?=\s)/, "");
}

/** The text of a mark. */
export function roundBytes(value: number): string {
  return withoutZeros(bytes(value));
}

/** How the marks of an axis are labelled. */
export function markLabel(formatter: (value: number) => string, colours: ChartColours) {
  return { formatter, hideOverlap: true, color: colours.faintText };
}
