/** What each step of a solve brought. */

import type { AblationStep, Provenance } from "./types";

export interface StepRow extends AblationStep {
  key: string;
  /** How much the step improved the best of all; null for the first plan of all. */
  gainNs: number | null;
}

export function stepRows(provenance: Provenance): StepRow[] {
  let before: number | null = null;
  return (provenance.ablation ?? []).map((step, index) => {
    const after = step.best_ns ?? null;
    const gainNs = before === null || after === null ? null : before - after;
    before = after ?? before;
    return { ...step, key: String(index), gainNs };
  });
}

/** When the answer was found, in seconds of the solve. */
export function foundAt(provenance: Provenance): number | null {
  const steps = provenance.steps ?? [];
  return steps[steps.length - 1]?.seconds ?? null;
}

/** The options that were set or are not their own absence, in the order of the document. */
export function optionRows(provenance: Provenance): { name: string; value: string | null }[] {
  return Object.entries(provenance.options ?? {}).map(([name, value]) => ({
    name,
    value: value === null || value === undefined ? null : optionText(value),
  }));
}

function optionText(value: unknown): string {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
