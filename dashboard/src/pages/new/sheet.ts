/** What is on the form for one kind of plan, and what a change of a field or of the JSON makes of it. */

import type { Kind } from "../../api/types";
import { getAt, setAt } from "./body";
import type { Field } from "./field";
import { fieldsOf, isGraph, isMeasured } from "./fields";
import { type JsonFault, type JsonObject, readJsonObject, writeJson } from "./json-text";
import { STARTERS } from "./starters";
import { wrapBare } from "./upload";
import { readValue, showValue, type Wanted } from "./values";

export interface Sheet {
  body: JsonObject;
  /** Texts of fields as they were typed, by path: also those that are no value. */
  typed: Readonly<Record<string, string>>;
  /** The editor's text where it is not what the form would write; wrong JSON stays here. */
  json: string | null;
  /** Parts of the other source (a model, a problem, a graph), to come back to. */
  aside: JsonObject;
}

/** The parts of a body that exclude each other. */
const SOURCES = {
  model: ["model", "cluster", "training"],
  problem: ["problem"],
  transformer: ["transformer"],
  graph: ["graph"],
} as const;

export type Source = keyof typeof SOURCES;

export function sheetOf(body: JsonObject): Sheet {
  return { body, typed: {}, json: null, aside: {} };
}

export function sourceOf(kind: Kind, body: JsonObject): Source {
  if (kind === "sharding") {
    return isGraph(body) ? "graph" : "transformer";
  }
  return isMeasured(body) ? "problem" : "model";
}

/** What a field shows; null where its value is one that it cannot show. */
export function textOf(sheet: Sheet, field: Field): string | null {
  const typed = sheet.typed[field.path];
  if (typed !== undefined) {
    return typed;
  }
  const value = getAt(sheet.body, field.path);
  return value === undefined ? "" : showValue(field.type, value);
}

/** The sheet after something was typed into a field. What is no value leaves the body without it. */
export function withText(sheet: Sheet, field: Field, text: string): Sheet {
  const reading = text.trim() === "" ? null : readValue(field.type, text);
  const value = reading && "value" in reading ? reading.value : undefined;
  return {
    ...sheet,
    body: setAt(sheet.body, field.path, value),
    typed: { ...sheet.typed, [field.path]: text },
    json: null,
  };
}

/** What is wrong with the texts of fields that are no values, by path. */
export function unread(sheet: Sheet, fields: readonly Field[]): Map<string, Wanted> {
  const found = new Map<string, Wanted>();
  for (const field of fields) {
    const text = sheet.typed[field.path]?.trim() ?? "";
    const reading = text === "" ? null : readValue(field.type, text);
    if (reading && "wanted" in reading) {
      found.set(field.path, reading.wanted);
    }
  }
  return found;
}

/** The text that the editor shows. */
export function jsonOf(sheet: Sheet): string {
  return sheet.json ?? writeJson(sheet.body);
}

export function jsonFault(sheet: Sheet): JsonFault | null {
  if (sheet.json === null) {
    return null;
  }
  const reading = readJsonObject(sheet.json);
  return "fault" in reading ? reading.fault : null;
}

/** The sheet after the JSON was edited. Wrong JSON is kept as a text, and the body as it was. */
export function withJson(sheet: Sheet, kind: Kind, text: string): Sheet {
  const reading = readJsonObject(text);
  if ("fault" in reading) {
    return { ...sheet, json: text };
  }
  const body = wrapBare(kind, reading.document);
  return { ...sheet, body, typed: {}, json: body === reading.document ? text : null };
}

/** Go over to another source; what there was of the one before is kept aside. */
export function withSource(sheet: Sheet, kind: Kind, source: Source): Sheet {
  const before = sourceOf(kind, sheet.body);
  if (source === before) {
    return sheet;
  }
  const body: JsonObject = {};
  const aside = { ...sheet.aside };
  for (const [name, value] of Object.entries(sheet.body)) {
    const isOfBefore = (SOURCES[before] as readonly string[]).includes(name);
    (isOfBefore ? aside : body)[name] = value;
  }
  const starter = STARTERS[source];
  for (const name of SOURCES[source]) {
    const value = aside[name] ?? starter[name];
    if (value !== undefined) {
      body[name] = value;
    }
  }
  return { body, typed: {}, json: null, aside };
}

/** Say devices by their number, or as a cluster. */
export function withCountedDevices(sheet: Sheet, counted: boolean): Sheet {
  const at = (name: string) => getAt(sheet.body, `devices.${name}`);
  const number = (value: unknown, otherwise: number) =>
    typeof value === "number" ? value : otherwise;
  const devices: JsonObject = counted
    ? { count: number(at("nodes"), 1) * number(at("gpus_per_node"), 8) }
    : { gpu: "A100-80GB", nodes: 1, gpus_per_node: number(at("count"), 8) };
  return { ...sheet, body: { ...sheet.body, devices }, typed: {}, json: null };
}

/** Fields of the form as they are for what the sheet holds. */
export function fieldsOn(kind: Kind, sheet: Sheet): readonly Field[] {
  return fieldsOf(kind, sheet.body);
}
