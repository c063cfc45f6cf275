/** What a plan lacks, and why: plans kept from a solve that was cancelled or lost are short. */

import type { PipelineResult } from "./types";

export type Part = "comparison" | "robustness" | "waits" | "steps" | "assumptions" | "memorySafety";

export interface Missing {
  parts: Part[];
  /** In the words of the service, where it says. */
  reason: string | null;
  /** Whether it is the last plan that was reported of a solve that did not end by itself. */
  isKept: boolean;
  stoppedBy: string | null;
}

export function missingParts(result: PipelineResult): Missing | null {
  const { provenance } = result;
  const absent: [Part, boolean][] = [
    ["comparison", result.comparison === null],
    ["waits", result.schedule?.waits === undefined],
    ["memorySafety", (result.certificate.memory_safe_under_jitter ?? null) === null],
    ["robustness", result.robustness === null],
    ["steps", provenance.ablation === undefined],
    ["assumptions", provenance.assumptions === undefined],
  ];
  const parts = absent.filter(([, isAbsent]) => isAbsent).map(([part]) => part);
  if (parts.length === 0) {
    return null;
  }
  return {
    parts,
    reason: provenance.left_out ?? null,
    isKept: result.comparison === null && provenance.ablation === undefined,
    stoppedBy: provenance.stopped_by ?? null,
  };
}
