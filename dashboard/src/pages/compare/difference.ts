/** Differences as they are written: with their sign. */

import { number, percent, writerOf } from "../../format";
import { texts } from "../../i18n";

const MINUS = "−";

export function signed(value: number, write: (size: number) => string): string {
  if (value === 0) {
    return "±0";
  }
  return `${value < 0 ? MINUS : "+"}${write(Math.abs(value))}`;
}

export function timeDifference(a: number, b: number): string {
  const share = a === 0 || a === b ? "" : ` (${signed((b - a) / a, (size) => percent(size, 1))})`;
  return `${signed(b - a, writerOf("time", [a, b]))}${share}`;
}

export function bytesDifference(a: number, b: number): string {
  return signed(b - a, writerOf("bytes", [a, b]));
}

export function countDifference(a: number, b: number): string {
  return signed(b - a, (size) => number(size));
}

/** Of two shares, in percentage points. */
export function shareDifference(a: number, b: number): string {
  return signed(b - a, (size) => texts().compare.facts.points(number(size * 100, 2)));
}
