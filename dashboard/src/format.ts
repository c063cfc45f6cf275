/** Numbers as people read them, in the language that is shown. */

import { locale } from "./i18n";

const KIB = 1024;

/** A unit with its size in that of the values: bytes or nanoseconds. */
interface Unit {
  name: string;
  size: number;
}

/** The unit and the digits of figures that are read beside one another. */
export interface Scale {
  unit: Unit;
  digits: number;
}

/** What figures measure; times are in nanoseconds. */
export type Measure = "bytes" | "time";

/** The largest first. */
const UNITS: Record<Measure, readonly Unit[]> = {
  bytes: ["TiB", "GiB", "MiB", "KiB", "B"].map((name, index) => ({
    name,
    size: KIB ** (4 - index),
  })),
  time: ["s", "ms", "µs", "ns"].map((name, index) => ({ name, size: 1000 ** (3 - index) })),
};
/** How many figures the largest of several values has: times of plans differ by little. */
const FIGURES: Record<Measure, number> = { bytes: 5, time: 6 };
const FIGURES_ALONE = 4;

/** Making a format takes a thousand times as long as using it. */
const NUMBER_FORMATS = new Map<string, Intl.NumberFormat>();

/** A number with so many digits after its point; those at its end that are 0 may be left out. */
export function number(value: number, digits = 0, leastDigits = digits): string {
  const key = `${locale()} ${digits} ${leastDigits}`;
  let format = NUMBER_FORMATS.get(key);
  if (!format) {
    format = new Intl.NumberFormat(locale(), {
      minimumFractionDigits: leastDigits,
      maximumFractionDigits: digits,
    });
    NUMBER_FORMATS.set(key, format);
  }
  return format.format(value);
}

/** A time in the unit that suits it, with about four figures. */
export function duration(ns: number): string {
  return written(ns, scaleOf("time", [ns], FIGURES_ALONE));
}

/** The exact time, for those who need each nanosecond. */
export function exactTime(ns: number): string {
  return `${number(ns)} ns`;
}

export function bytes(value: number): string {
  return written(value, scaleOf("bytes", [value], FIGURES_ALONE));
}

/** One unit for all values that are shown together, chosen by the largest of them. */
export function scaleOf(
  measure: Measure,
  values: readonly (number | null | undefined)[],
  figures = FIGURES[measure],
): Scale {
  const most = values.reduce<number>((before, value) => Math.max(before, Math.abs(value ?? 0)), 0);
  const units = UNITS[measure];
  const smallest = units[units.length - 1] as Unit;
  const unit = units.find((one) => most >= one.size) ?? smallest;
  const whole = Math.max(1, Math.floor(Math.log10(Math.max(1, most / unit.size))) + 1);
  return { unit, digits: unit === smallest ? 0 : Math.max(1, figures - whole) };
}

/** A value without its unit; what would round to nothing is said to be less than the least. */
export function scaled(value: number, { unit, digits }: Scale): string {
  if (value === 0) {
    return number(0);
  }
  const shown = value / unit.size;
  const least = 10 ** -digits;
  if (Math.abs(shown) < least / 2) {
    return `${value < 0 ? ">−" : "<"}${number(least, digits)}`;
  }
  return number(shown, digits);
}

/** A value with the unit of its scale. */
export function written(value: number, scale: Scale): string {
  return `${scaled(value, scale)} ${scale.unit.name}`;
}

/** How all values that are shown together are written. */
export function writerOf(
  measure: Measure,
  values: readonly (number | null | undefined)[],
): (value: number) => string {
  const scale = scaleOf(measure, values);
  return (value) => written(value, scale);
}

/** A value in its smallest unit, to the last one. */
export function exact(measure: Measure, value: number): string {
  return measure === "time" ? exactTime(value) : `${number(value)} B`;
}

export function percent(share: number, digits = 2): string {
  return new Intl.NumberFormat(locale(), {
    style: "percent",
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  }).format(share);
}

const DATE_FORMATS = new Map<string, Intl.DateTimeFormat>();

/** Date and time of the reader's place, with the name of its time zone. */
export function dateTime(at: Date): string {
  const tag = locale();
  let format = DATE_FORMATS.get(tag);
  if (!format) {
    format = new Intl.DateTimeFormat(tag, {
      year: "numeric",
      month: "short",
      day: "numeric",
      hour: "numeric",
      minute: "2-digit",
      second: "2-digit",
      timeZoneName: "short",
    });
    DATE_FORMATS.set(tag, format);
  }
  return format.format(at);
}

/** The same time for everyone: ISO 8601 in UTC, to the second. */
export function utcTime(at: Date): string {
  return at.toISOString().replace(/\.\d+Z$/, "Z");
}

const AGE_FORMATS = new Map<string, Intl.RelativeTimeFormat>();

function ageFormat(tag: string): Intl.RelativeTimeFormat {
  const format = AGE_FORMATS.get(tag) ?? new Intl.RelativeTimeFormat(tag, { style: "narrow" });
  AGE_FORMATS.set(tag, format);
  return format;
}

/** How long ago, in the largest unit that fits. */
export function age(at: Date, now: Date): string {
  const seconds = Math.max(0, Math.round((now.getTime() - at.getTime()) / 1000));
  const format = ageFormat(locale());
  if (seconds < 60) {
    return format.format(-seconds, "second");
  }
  if (seconds < 3600) {
    return format.format(-Math.floor(seconds / 60), "minute");
  }
  if (seconds < 86_400) {
    return format.format(-Math.floor(seconds / 3600), "hour");
  }
  return format.format(-Math.floor(seconds / 86_400), "day");
}
