/** What is typed into a field, and the value of a request that it stands for. */

import { isObject, type Json } from "./json-text";

export type FieldType =
  | "text"
  | "whole"
  | "number"
  | "bytes"
  | "rate"
  | "flops"
  | "flag"
  | "choice"
  | "model"
  | "gpu"
  | "socket"
  | "texts"
  | "wholes"
  | "numbers"
  | "bytesPerStage"
  | "wholeChoices"
  | "textChoices"
  | "flagChoices";

/** What would have to be typed; the reason why a text is no value. */
export type Wanted = "whole" | "number" | "bytes" | "rate" | "flops" | "wholes" | "numbers";
export type Reading = { value: Json } | { wanted: Wanted };

const SIZES: Record<string, number> = {
  "": 1,
  K: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
};
const SIZE = /^(\d+(?:\.\d+)?(?:[eE]\+?\d+)?)\s*([KMGTP]?|[KMGT]i)B?$/;
const RATE = /^(\d+(?:\.\d+)?(?:[eE]\+?\d+)?)\s*([KMGTP]?|[KMGT]i)(?:B(?:\/s)?)?$/;
const FLOPS = /^(\d+(?:\.\d+)?(?:[eE]\+?\d+)?)\s*([KMGTP]?)(?:FLOPS?(?:\/s)?)?$/i;

/** The value that a text stands for; the text is not empty, which would stand for none. */
export function readValue(type: FieldType, text: string): Reading {
  const trimmed = text.trim();
  switch (type) {
    case "text":
      return { value: text };
    case "choice":
    case "model":
    case "gpu":
      return { value: trimmed };
    case "flag":
      return { value: flagOf(trimmed) };
    case "whole":
      return whole(trimmed);
    case "number":
      return number(trimmed);
    case "bytes":
      return scaled(SIZE, trimmed, "bytes");
    case "rate":
      return scaled(RATE, trimmed, "rate");
    case "flops":
      return scaled(FLOPS, trimmed, "flops");
    case "socket":
      return { value: /^\d+$/.test(trimmed) ? Number(trimmed) : trimmed };
    case "texts":
    case "textChoices":
      return { value: partsOf(trimmed) };
    case "flagChoices":
      return { value: partsOf(trimmed).map(flagOf) };
    case "wholes":
    case "wholeChoices":
      return listed(trimmed, whole, "wholes");
    case "numbers":
      return oneOrListed(trimmed, number, "numbers");
    case "bytesPerStage":
      return oneOrListed(trimmed, (part) => scaled(SIZE, part, "bytes"), "bytes");
  }
}

/** The text of a value in a field, or null where a field of this type cannot show it. */
export function showValue(type: FieldType, value: Json): string | null {
  switch (type) {
    case "text":
    case "choice":
    case "model":
    case "gpu":
      return typeof value === "string" ? value : null;
    case "flag":
      return typeof value === "boolean" ? String(value) : null;
    case "whole":
    case "number":
      return typeof value === "number" ? String(value) : null;
    case "bytes":
      return typeof value === "number" ? sizeText(value, "B") : null;
    case "rate":
      return typeof value === "number" ? decimalText(value, "B/s") : null;
    case "flops":
      return typeof value === "number" ? decimalText(value, "FLOP/s") : null;
    case "socket":
      return typeof value === "string" || typeof value === "number" ? String(value) : null;
    case "texts":
      return allAre(value, (part) => typeof part === "string" && !/[,\uff0c]|^\s|\s$/.test(part));
    case "textChoices":
      return allAre(value, (part) => typeof part === "string");
    case "flagChoices":
      return allAre(value, (part) => typeof part === "boolean");
    case "wholes":
    case "wholeChoices":
      return allAre(value, (part) => typeof part === "number");
    case "numbers":
      return typeof value === "number"
        ? String(value)
        : allAre(value, (part) => typeof part === "number");
    case "bytesPerStage":
      if (typeof value === "number") {
        return sizeText(value, "B");
      }
      return allAre(
        value,
        (part) => typeof part === "number",
        (part) => sizeText(part as number, "B"),
      );
  }
}

export function partsOf(text: string): string[] {
  return text
    .split(/[,\uff0c]/)
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

function whole(text: string): Reading {
  return /^-?\d+$/.test(text) ? { value: Number(text) } : { wanted: "whole" };
}

function number(text: string): Reading {
  const value = Number(text);
  return /^[-+.\deE]+$/.test(text) && Number.isFinite(value) ? { value } : { wanted: "number" };
}

function scaled(pattern: RegExp, text: string, wanted: Wanted): Reading {
  const match = pattern.exec(text);
  if (!match) {
    return { wanted };
  }
  const unit = match[2] ?? "";
  const size = SIZES[unit] ?? SIZES[unit.toUpperCase()] ?? 1;
  // 0.1 G is 100 M: the product's last digit is not what was typed.
  const value = size === 1 ? Number(match[1]) : Number((Number(match[1]) * size).toPrecision(15));
  return { value: wanted === "bytes" ? Math.round(value) : value };
}

function listed(text: string, read: (part: string) => Reading, wanted: Wanted): Reading {
  const values: Json[] = [];
  for (const part of partsOf(text)) {
    const reading = read(part);
    if ("wanted" in reading) {
      return { wanted };
    }
    values.push(reading.value);
  }
  return { value: values };
}

function oneOrListed(text: string, read: (part: string) => Reading, wanted: Wanted): Reading {
  const reading = listed(text, read, wanted);
  const only = "value" in reading && Array.isArray(reading.value) && reading.value.length === 1;
  return only ? { value: (reading.value as Json[])[0] ?? null } : reading;
}

/** What is neither true nor false stays as it was typed: the service says what is wrong with it. */
function flagOf(text: string): Json {
  return text === "true" ? true : text === "false" ? false : text;
}

function allAre(
  value: Json,
  fits: (part: Json) => boolean,
  shown: (part: Json) => string = String,
): string | null {
  return Array.isArray(value) && !isObject(value) && value.length > 0 && value.every(fits)
    ? value.map(shown).join(", ")
    : null;
}

/** Exact: the largest binary unit that divides it, else a decimal one, else bytes. */
function sizeText(value: number, unit: string): string {
  for (const prefix of ["Ti", "Gi", "Mi"]) {
    if (value > 0 && value % (SIZES[prefix] as number) === 0) {
      return `${value / (SIZES[prefix] as number)} ${prefix}${unit}`;
    }
  }
  return value % 1e6 === 0 ? decimalText(value, unit) : String(value);
}

/** Only a unit in which the number stays short and exact. */
function decimalText(value: number, unit: string): string {
  for (const prefix of ["T", "G", "M"]) {
    const size = SIZES[prefix] as number;
    const text = String(value / size);
    if (
      value >= size &&
      text.length <= 7 &&
      Number((Number(text) * size).toPrecision(15)) === value
    ) {
      return `${text} ${prefix}${unit}`;
    }
  }
  return String(value);
}
