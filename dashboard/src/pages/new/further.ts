/** What of a body no field shows. */

import { asFields } from "./body";
import type { Field } from "./field";
import type { Json, JsonObject } from "./json-text";
import { showValue } from "./values";

export interface Further {
  path: string;
  value: Json;
}

/** Parts with a summary of their own on the form. */
const SUMMED_UP = new Set(["graph", "problem.devices", "problem.stages", "problem.transfers"]);

export function furtherFields(body: JsonObject, fields: readonly Field[]): Further[] {
  const known = new Map(fields.map((field) => [field.path, field]));
  const found: Further[] = [];
  for (const [name, value] of Object.entries(body)) {
    collect(name, value, known, found);
  }
  return found;
}

function collect(
  path: string,
  value: Json,
  known: ReadonlyMap<string, Field>,
  found: Further[],
): void {
  const field = known.get(path);
  if (SUMMED_UP.has(path) || (field && showValue(field.type, value) !== null)) {
    return;
  }
  const fields = asFields(path, value);
  const isPart = [...known.keys()].some((name) => name.startsWith(`${path}.`));
  if (!fields || !isPart) {
    found.push({ path, value });
    return;
  }
  for (const [name, inner] of Object.entries(fields)) {
    collect(`${path}.${name}`, inner, known, found);
  }
}
