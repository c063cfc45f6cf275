/** What the table of stages shows, from a run's estimates. */

import type { Estimate, RunStage } from "../../api/types";

export const COMPUTATION = ["forward_ns", "backward_input_ns", "backward_weight_ns"] as const;

export interface Drifted {
  quantity: string;
  before: number;
  after: number;
  since: number;
}

/** What a stage computes for one micro-batch. */
export interface ComputationRow {
  stage: number;
  timesNs: (number | null)[];
  /** The largest of the three, as a share. */
  noise: number | null;
  /** The least of the three. */
  confidence: number | null;
  /** All that is known of both, measured over planned, less 1. */
  against: number | null;
  drifted: readonly Drifted[];
}

export function computationRow(stage: RunStage): ComputationRow {
  const estimates = COMPUTATION.map((quantity) => stage.quantities[quantity] ?? null);
  const present = estimates.filter((estimate) => estimate !== null);
  const compared = present.filter((estimate) => estimate.planned !== null);
  const planned = sum(compared.map((estimate) => estimate.planned ?? 0));
  const measured = sum(compared.map((estimate) => estimate.value));
  return {
    stage: stage.stage,
    timesNs: estimates.map((estimate) => estimate?.value ?? null),
    noise: most(present.map((estimate) => estimate.noise)),
    confidence: least(present.map((estimate) => estimate.confidence)),
    against: planned > 0 ? measured / planned - 1 : null,
    drifted: driftedOf(stage),
  };
}

/** Every quantity of a stage that has drifted, of its computation or not. */
export function driftedOf(stage: RunStage): Drifted[] {
  return Object.entries(stage.quantities).flatMap(([quantity, { drift }]) =>
    drift ? [{ quantity, before: drift.before, after: drift.after, since: drift.since }] : [],
  );
}

/** The quantities that any stage has an estimate of. */
export function quantitiesOf(stages: readonly RunStage[]): string[] {
  return [...new Set(stages.flatMap((stage) => Object.keys(stage.quantities)))];
}

export interface QuantityRow {
  stage: number;
  estimate: Estimate;
}

export function quantityRows(stages: readonly RunStage[], quantity: string): QuantityRow[] {
  return stages.flatMap((stage) => {
    const estimate = stage.quantities[quantity];
    return estimate ? [{ stage: stage.stage, estimate }] : [];
  });
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function most(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : Math.max(...known);
}

function least(values: readonly number[]): number | null {
  return values.length === 0 ? null : Math.min(...values);
}
