/** What is known of a training, put together from the documents that somebody gives. */

import { isObject, type JsonObject } from "../new/json-text";

/** The fields of a diagnosis's body that say what is known. */
export const PARTS = [
  "telemetry",
  "problem",
  "schedule",
  "model",
  "cluster",
  "training",
  "placement",
  "solver",
  "orders",
  "plan_versions",
  "throughput",
  "solve",
] as const;
export type Part = (typeof PARTS)[number];
const TAKEN: readonly string[] = [...PARTS, "symptoms"];

export interface Added {
  body: JsonObject;
  /** Fields of the document that a diagnosis does not take. */
  leftOut: string[];
}

/** The body with a document added to it; null where the document says nothing that is taken. */
export function withDocument(body: JsonObject, document: unknown): Added | null {
  const telemetry = telemetryOf(document);
  if (telemetry !== null) {
    const before = Array.isArray(body.telemetry) ? body.telemetry : [];
    return { body: { ...body, telemetry: [...before, ...telemetry] }, leftOut: [] };
  }
  if (!isObject(document)) {
    return null;
  }
  if (Array.isArray(document.stages) && Array.isArray(document.devices)) {
    return { body: { ...body, problem: document }, leftOut: [] };
  }
  const kept = Object.entries(document).filter(([name]) => TAKEN.includes(name));
  if (kept.length === 0) {
    return null;
  }
  return {
    body: {
      ...body,
      ...Object.fromEntries(kept.map(([name, value]) => [name, part(name, value)])),
    },
    leftOut: Object.keys(document).filter((name) => !TAKEN.includes(name)),
  };
}

/** Of a schedule the operations alone: nothing else of it counts. */
function part(name: string, value: JsonObject[string]): JsonObject[string] {
  const isSchedule = name === "schedule" && isObject(value) && value.ops !== undefined;
  return isSchedule ? { ops: value.ops ?? null } : value;
}

/** Iterations as runs report them: one, several, or a list; null for anything else. */
function telemetryOf(document: unknown): JsonObject[] | null {
  if (Array.isArray(document)) {
    return document.length > 0 && document.every(isIteration) ? document : null;
  }
  if (isIteration(document)) {
    return [document];
  }
  return isObject(document) && Array.isArray(document.iterations)
    ? telemetryOf(document.iterations)
    : null;
}

function isIteration(value: unknown): value is JsonObject {
  return isObject(value) && "iteration" in value && Array.isArray(value.stages);
}
