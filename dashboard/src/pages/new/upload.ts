/** What a JSON document that somebody opens is: a request of some kind, or a bare part of one. */

import type { Kind } from "../../api/types";
import type { JsonObject } from "./json-text";

export interface Opened {
  kind: Kind;
  body: JsonObject;
  /** Whether it has anything by which a request, a problem or a graph is known. */
  isKnown: boolean;
}

const COMMON_NAMES = ["model", "cluster", "training", "problem", "solver"];
const SHARDING_NAMES = ["graph", "transformer", "devices", "alpha"];
const TRAINING_NAMES = ["search", "memory_headroom", "routing_frequency"];

/** The request that a document is, or is a part of; `shown` is the kind where it could be either. */
export function openedAs(document: JsonObject, shown: Kind): Opened {
  if (isBareProblem(document)) {
    return { kind: "pipeline", body: { problem: document }, isKnown: true };
  }
  if (isBareGraph(document)) {
    return { kind: "sharding", body: { graph: document }, isKnown: true };
  }
  const has = (names: readonly string[]) => names.some((name) => Object.hasOwn(document, name));
  const isKnown = has([...COMMON_NAMES, ...SHARDING_NAMES, ...TRAINING_NAMES]);
  return { kind: kindOf(has, isKnown, shown), body: document, isKnown };
}

function kindOf(has: (names: readonly string[]) => boolean, isKnown: boolean, shown: Kind): Kind {
  if (has(["problem"])) {
    return "pipeline";
  }
  if (has(SHARDING_NAMES)) {
    return "sharding";
  }
  return has(TRAINING_NAMES) || shown === "training" ? "training" : isKnown ? "pipeline" : shown;
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
