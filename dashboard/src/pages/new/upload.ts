/** What a JSON document that somebody opens is: a request of some kind, or a bare part of one. */

import type { Kind } from "../../api/types";
import type { JsonObject } from "./json-text";

export interface Opened {
  kind: Kind;
  body: JsonObject;
}

const SHARDING_NAMES = ["graph", "transformer", "devices", "alpha"];
const TRAINING_NAMES = ["search", "memory_headroom", "routing_frequency"];

/** The request that a document is, or is a part of; `shown` is the kind where it could be either. */
export function openedAs(document: JsonObject, shown: Kind): Opened {
  if (isBareProblem(document)) {
    return { kind: "pipeline", body: { problem: document } };
  }
  if (isBareGraph(document)) {
    return { kind: "sharding", body: { graph: document } };
  }
  const has = (names: readonly string[]) => names.some((name) => Object.hasOwn(document, name));
  if (has(["problem"])) {
    return { kind: "pipeline", body: document };
  }
  if (has(SHARDING_NAMES)) {
    return { kind: "sharding", body: document };
  }
  if (has(TRAINING_NAMES)) {
    return { kind: "training", body: document };
  }
  return { kind: shown === "training" ? "training" : "pipeline", body: document };
}

/** A bare problem or graph as a request of this kind; anything else as it is. */
export function wrapBare(kind: Kind, document: JsonObject): JsonObject {
  if (kind === "pipeline" && isBareProblem(document)) {
    return { problem: document };
  }
  return kind === "sharding" && isBareGraph(document) ? { graph: document } : document;
}

function isBareProblem(document: JsonObject): boolean {
  return Array.isArray(document.stages) && Array.isArray(document.devices);
}

function isBareGraph(document: JsonObject): boolean {
  return Array.isArray(document.operators);
}
