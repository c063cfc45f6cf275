/** The plans of an answer in one list: those that are ranked, and the rest of the Pareto front. */

import type { Figures, TrainedPlan, TrainingResult } from "./types";

export interface Candidate {
  key: string;
  figures: Figures;
  /** Null for a point of the front that is not among the ranked plans. */
  plan: TrainedPlan | null;
  isBest: boolean;
  isPareto: boolean;
  fits: boolean;
}

const IDENTIFYING = [
  "devices",
  "tensor_parallel",
  "pipeline_parallel",
  "data_parallel",
  "context_parallel",
  "expert_parallel",
  "micro_batch_size",
  "interleaving",
  "zero_stage",
  "recomputation",
  "offload",
] as const;

/** What tells a configuration from all others. */
export function configurationKey(figures: Figures): string {
  return IDENTIFYING.map((name) => String(figures[name])).join("/");
}

/** In few letters: `TP 2 · PP 4 · DP 32`, and whatever else is not one. */
export function configurationText(figures: Figures): string {
  const degrees: [string, number][] = [
    ["TP", figures.tensor_parallel],
    ["PP", figures.pipeline_parallel],
    ["DP", figures.data_parallel],
  ];
  const further: [string, number][] = [
    ["CP", figures.context_parallel],
    ["EP", figures.expert_parallel],
  ];
  return [...degrees, ...further.filter(([, degree]) => degree > 1)]
    .map(([name, degree]) => `${name} ${degree}`)
    .join(" · ");
}

/** Ranked plans first, then the points of the front that are not among them. */
export function candidatesOf(result: TrainingResult): Candidate[] {
  const onFront = new Set((result.pareto ?? []).map(configurationKey));
  const plans = (result.plans ?? []).map((plan) => {
    const key = configurationKey(plan);
    return {
      key,
      figures: plan,
      plan,
      isBest: plan.rank === result.best?.rank,
      isPareto: onFront.has(key),
      fits: plan.fits,
    };
  });
  const listed = new Set(plans.map((one) => one.key));
  const others = (result.pareto ?? [])
    .filter((figures) => !listed.has(configurationKey(figures)))
    .map((figures) => ({
      key: configurationKey(figures),
      figures,
      plan: null,
      isBest: false,
      isPareto: true,
      fits: figures.headroom_bytes >= 0,
    }));
  return [...plans, ...others];
}

/** The candidate that a step leads to, in the order of step time; the first where none is chosen. */
export function stepped(candidates: readonly Candidate[], from: string | null, by: number) {
  const ordered = [...candidates].sort((a, b) => a.figures.step_time_ns - b.figures.step_time_ns);
  const at = ordered.findIndex((one) => one.key === from);
  const target = at < 0 ? 0 : Math.min(ordered.length - 1, Math.max(0, at + by));
  return ordered[target]?.key ?? null;
}
