/** Numbers as people read them, in the language that is shown. */

import { locale } from "./i18n";

const KIB = 1024;
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const TIME_UNITS: readonly (readonly [string, number])[] = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
  ["ns", 1],
];

/** Making a format takes a thousand times as long as using it. */
const NUMBER_FORMATS = new Map<string, Intl.NumberFormat>();

export function number(value: number, digits = 0): string {
  const key = `${locale()} ${digits}`;
  let format = NUMBER_FORMATS.get(key);
  if (!format) {
    format = new Intl.NumberFormat(locale(), {
      minimumFractionDigits: digits,
      maximumFractionDigits: digits,
    });
    NUMBER_FORMATS.set(key, format);
  }
  return format.format(value);
}

/** A time in milliseconds to the microsecond, as the command line has it. */
export function milliseconds(ns: number): string {
  return `${number(ns / 1e6, 3)} ms`;
}

/** A time in the unit that suits it, with about four figures. */
export function duration(ns: number): string {
  const [unit, size] = TIME_UNITS.find((entry) => Math.abs(ns) >= entry[1]) ?? ["ns", 1];
  const value = ns / size;
  return `${number(value, unit === "ns" ? 0 : fractionDigits(value))} ${unit}`;
}

/** The exact time, for those who need each nanosecond. */
export function exactTime(ns: number): string {
  return `${number(ns)} ns`;
}

export function bytes(value: number): string {
  let unit = 0;
  let rest = value;
  while (Math.abs(rest) >= KIB && unit < BYTE_UNITS.length - 1) {
    rest /= KIB;
    unit += 1;
  }
  return `${number(rest, unit === 0 ? 0 : fractionDigits(rest))} ${BYTE_UNITS[unit]}`;
}

export function percent(share: number, digits = 2): string {
  return new Intl.NumberFormat(locale(), {
    style: "percent",
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  }).format(share);
}

export function clockTime(at: Date): string {
  return new Intl.DateTimeFormat(locale(), { timeStyle: "medium" }).format(at);
}

export function dateTime(at: Date): string {
  return new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeStyle: "medium" }).format(at);
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

function fractionDigits(value: number): number {
  const size = Math.abs(value);
  return size >= 100 ? 1 : size >= 10 ? 2 : 3;
}
