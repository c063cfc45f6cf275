/** Axes of bytes and times: round marks, all in one unit. */

import { type Measure, number, type Scale, scaleOf, written } from "../format";
import type { ChartColours } from "../palette";

const MARKS = 4;
/** A logarithmic axis that is this wide has marks of several units: one would need too many zeros. */
const WIDE_RATIO = 2 ** 14;
/** Ratio of the largest to the smallest value from which a logarithmic axis shows more. */
const UNCLEAR_RATIO = 10;

/** How the marks of an axis are labelled. */
export function markLabel(formatter: (value: number) => string, colours: ChartColours) {
  return { formatter, hideOverlap: true, color: colours.faintText };
}

/** The text of a mark, which is a round number of its unit. */
export function markText(value: number, { unit }: Scale): string {
  return `${number(value / unit.size, 3, 0)} ${unit.name}`;
}

/** The distance of marks, so that about four of them are below the largest value. */
export function roundInterval(measure: Measure, most: number): number {
  const { unit } = scaleOf(measure, [most]);
  return Math.max(unit.size === 1 ? 1 : 0, roundUp(most / unit.size / MARKS) * unit.size);
}

/** A linear axis from zero to beyond the largest value. */
export function linearAxis(measure: Measure, most: number, colours: ChartColours) {
  const interval = roundInterval(measure, Math.max(1, most));
  const scale = scaleOf(measure, [most]);
  return {
    type: "value" as const,
    min: 0,
    max: interval * Math.max(1, Math.ceil((most / interval) * 1.001)),
    interval,
    axisLabel: markLabel((value) => markText(value, scale), colours),
  };
}

/** A logarithmic axis over the values above zero; `least` is drawn at its beginning. */
export function logAxis(
  measure: Measure,
  values: readonly number[],
  least: number,
  colours: ChartColours,
) {
  const most = Math.max(least, ...values);
  const min = least / 1.1;
  const max = most * 1.1;
  const shared = areFarApart([min, max]) ? null : scaleOf(measure, [most]);
  const write = (value: number) => markText(value, shared ?? scaleOf(measure, [value]));
  const customValues = logMarks(measure, min, max);
  return {
    type: "log" as const,
    logBase: 2,
    min,
    max,
    axisTick: { customValues },
    axisLabel: { ...markLabel(write, colours), customValues },
    splitLine: { show: true, customValues, lineStyle: { color: colours.grid } },
  };
}

/** Where a logarithmic axis has its marks: round numbers, few enough to be read. */
export function logMarks(measure: Measure, min: number, max: number): number[] {
  const fine =
    measure === "bytes"
      ? powers(2, min, max)
      : [1, 2, 5].flatMap((one) => multiples(one, min, max));
  const coarse = measure === "bytes" ? fine : multiples(1, min, max);
  const marks = fine.length > 2 * MARKS ? thinned(coarse) : fine;
  return marks.length > 2 ? marks : evenMarks(measure, min, max);
}

/** Each so many-th mark, so that about eight of them are left. */
function thinned(marks: readonly number[]): number[] {
  const step = Math.ceil(marks.length / (2 * MARKS));
  return marks.filter((_, index) => index % step === 0);
}

function multiples(factor: number, min: number, max: number): number[] {
  return powers(10, min / factor, max / factor).map((power) => factor * power);
}

function powers(base: number, min: number, max: number): number[] {
  const first = Math.ceil(Math.log(min) / Math.log(base) - 1e-9);
  const last = Math.floor(Math.log(max) / Math.log(base) + 1e-9);
  return Array.from(
    { length: Math.max(0, last - first + 1) },
    (_, index) => base ** (first + index),
  );
}

/** How the values of an axis are written beside it: in its unit, unless that has too many zeros. */
export function axisWriter(measure: Measure, values: readonly number[]) {
  const shared = scaleOf(measure, values);
  const each = areFarApart(values);
  return (value: number) => written(value, each ? scaleOf(measure, [value]) : shared);
}

/** Whether values are so far apart that most of them would lie on top of each other. */
export function isWide(values: readonly number[]): boolean {
  const positive = values.filter((value) => value > 0);
  return positive.length > 1 && Math.max(...positive) > UNCLEAR_RATIO * Math.min(...positive);
}

/** Where a logarithmic axis begins: at the least value, or where zero is drawn, at half of that. */
export function zeroPlace(values: readonly number[]): number {
  const positive = values.filter((value) => value > 0);
  const least = positive.length > 0 ? Math.min(...positive) : 1;
  return positive.length < values.length ? least / 2 : least;
}

function areFarApart(values: readonly number[]): boolean {
  const positive = values.filter((value) => value > 0);
  return Math.max(...positive) > WIDE_RATIO * Math.min(...positive);
}

function evenMarks(measure: Measure, min: number, max: number): number[] {
  const interval = roundInterval(measure, max - min);
  const marks: number[] = [];
  for (let at = Math.ceil(min / interval) * interval; at <= max; at += interval) {
    marks.push(at);
  }
  return marks;
}

/** The next of 1, 2 and 5 times a power of ten. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5, 10].find((one) => one * power >= value * (1 - 1e-9)) ?? 10;
  return step * power;
}
