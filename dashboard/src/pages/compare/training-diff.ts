/** In which fields the configurations of two training plans differ. */

import type { ResultDocument } from "../../api/types";

export interface RankedPlan {
  rank: number;
  devices?: number;
  step_time_ns?: number;
  tokens_per_s?: number;
  samples_per_s?: number;
  mfu?: number;
  peak_bytes?: number;
  headroom_bytes?: number;
  training?: Record<string, unknown>;
  step_time?: Record<string, unknown>;
}

export interface FieldPair {
  field: string;
  a: string | null;
  b: string | null;
  differs: boolean;
}

/** The plan that was chosen: the one of the best schedule, else the first of the ranking. */
export function bestPlan(result: ResultDocument): RankedPlan | null {
  const plans = (result.plans as RankedPlan[] | undefined) ?? [];
  return plans.find((plan) => plan.rank === result.best?.rank) ?? plans[0] ?? null;
}

/** All fields of both configurations, those that differ first. */
export function configurationPairs(a: RankedPlan | null, b: RankedPlan | null): FieldPair[] {
  const [left, right] = [a?.training ?? {}, b?.training ?? {}];
  const fields = [...new Set([...Object.keys(left), ...Object.keys(right)])];
  const pairs = fields.map((field) => pairOf(field, left[field], right[field]));
  return pairs.sort((x, y) => Number(y.differs) - Number(x.differs));
}

/** The parts of the step that have a time, the largest of both plans first. */
export function stepParts(
  a: RankedPlan | null,
  b: RankedPlan | null,
): { part: string; aNs: number | null; bNs: number | null }[] {
  const [left, right] = [a?.step_time ?? {}, b?.step_time ?? {}];
  const parts = [...new Set([...Object.keys(left), ...Object.keys(right)])];
  return parts
    .filter((part) => part.endsWith("_ns") && part !== "bound_ns")
    .map((part) => ({ part, aNs: timeOf(left[part]), bNs: timeOf(right[part]) }))
    .sort((x, y) => Math.max(y.aNs ?? 0, y.bNs ?? 0) - Math.max(x.aNs ?? 0, x.bNs ?? 0));
}

function pairOf(field: string, a: unknown, b: unknown): FieldPair {
  const [left, right] = [textOf(a), textOf(b)];
  return { field, a: left, b: right, differs: left !== right };
}

/** Runs of equal numbers are told as such: 32 layers of one stage each are long otherwise. */
function textOf(value: unknown): string | null {
  if (value === undefined || value === null) {
    return null;
  }
  if (Array.isArray(value) && value.length > 4 && new Set(value).size === 1) {
    return `${value.length} × ${value[0]}`;
  }
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function timeOf(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
