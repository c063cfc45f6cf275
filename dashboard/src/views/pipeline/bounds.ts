/** What the bounds of a certificate say about the room that is left. */

import { objectiveNs } from "./plan-facts";
import type { Bound, PipelineResult } from "./types";

/** What a bound counts; the texts explain each. */
export type BoundKind =
  | "arrival"
  | "workAndDrain"
  | "criticalPath"
  | "memoryTime"
  | "fillIdle"
  | "drainIdle"
  | "fillAndDrainIdle"
  | "tail"
  | "recycling"
  | "implied"
  | "relaxation"
  | "engine"
  | "other";

const KINDS: Record<string, BoundKind> = {
  "arrival and work": "arrival",
  "work and drain": "workAndDrain",
  "critical path": "criticalPath",
  "memory-time": "memoryTime",
  "fill idle": "fillIdle",
  "drain idle": "drainIdle",
  "fill and drain idle": "fillAndDrainIdle",
  tail: "tail",
  recycling: "recycling",
  "implied precedences": "implied",
  "lp relaxation": "relaxation",
  "linear relaxation": "relaxation",
  cbc: "engine",
  highs: "engine",
  cp_sat: "engine",
  "cp-sat": "engine",
};

/** What could still be done about the gap. */
export type Verdict = "proven" | "gap" | "noBound" | "unknown";

export function boundKind(name: string): BoundKind {
  return KINDS[name.toLowerCase()] ?? "other";
}

/** All bounds, the best first; one that needs a memory limit and has none is left out. */
export function sortedBounds(result: PipelineResult): Bound[] {
  const named = result.certificate.bounds ?? [];
  return named.filter((bound) => bound.value_ns > 0).sort((a, b) => b.value_ns - a.value_ns);
}

/** Bounds that say nothing here. */
export function idleBounds(result: PipelineResult): Bound[] {
  return (result.certificate.bounds ?? []).filter((bound) => bound.value_ns <= 0);
}

export function verdict(result: PipelineResult): Verdict {
  const { proven_optimal: proven, lower_bound_ns: bound } = result.certificate;
  if (objectiveNs(result) === null) {
    return "unknown";
  }
  if (proven) {
    return "proven";
  }
  return bound ? "gap" : "noBound";
}

/** The gap as the certificate has it, or from bound and value. */
export function gapOf(result: PipelineResult): number | null {
  const { gap, lower_bound_ns: bound } = result.certificate;
  if (gap !== undefined && gap !== null) {
    return gap;
  }
  const value = objectiveNs(result);
  return bound && value ? (value - bound) / value : null;
}

export type WayToClose =
  | "closeTime"
  | "closeGap"
  | "closeStopped"
  | "closeBudget"
  | "closeTried"
  | "closeEngineSize"
  | "closeSmall";

/** What would close the gap, by what ended the solve. */
export function waysToClose(result: PipelineResult): WayToClose[] {
  const { stopped_by: stoppedBy, exact } = result.provenance;
  const ways: WayToClose[] = [];
  switch (stoppedBy) {
    case "time limit":
      ways.push("closeTime");
      break;
    case "MIP gap reached":
      ways.push("closeGap");
      break;
    case "search budget used up":
      ways.push("closeBudget");
      break;
    case "nothing left to try":
      ways.push("closeTried");
      break;
    default:
      ways.push("closeStopped");
  }
  if (exact && exact.status !== "optimal") {
    ways.push("closeEngineSize");
  }
  ways.push("closeSmall");
  return ways;
}
