/** The parts of a pipeline schedule's result that its view reads. A kept plan lacks some of them. */

import type { Assumption, ComparisonRow, Op, ResultDocument } from "../../api/types";

export interface TimedOp {
  op: Op;
  stage: number;
  micro_batch: number;
  start_ns: number;
  end_ns: number;
}

export interface Problem {
  micro_batches: number;
  micro_batch_order?: string;
  objective?: string;
  devices: { activation_memory_bytes?: number | null; epilogue_ns?: number; name?: string }[];
  stages: { device: number; [field: string]: unknown }[];
  transfers?: unknown[];
}

export interface ScheduleDocument {
  ops?: TimedOp[];
  makespan_ns: number;
  steady_span_ns?: number | null;
  peak_memory_bytes?: number[];
  lower_bound_ns?: number | null;
  waits?: { after: unknown[] }[];
}

export interface Bound {
  name: string;
  value_ns: number;
}

export interface Certificate {
  verified?: boolean;
  verifier?: string;
  proven_optimal?: boolean;
  objective?: string;
  value_ns?: number;
  lower_bound_ns?: number | null;
  bound_name?: string | null;
  gap?: number | null;
  bounds?: Bound[];
  placements?: { placement: string; lower_bound_ns: number | null; best_ns: number | null }[];
  memory_safe_under_jitter?: boolean | null;
  memory_safety?: string | null;
}

export interface Robustness {
  jitter: number;
  samples: number;
  p50_ns: number;
  p95_ns: number;
  max_ns: number;
  memory_safe_for_any_durations?: boolean | null;
}

/** A step of the solve; one that the solve was stopped in has no end. */
export interface AblationStep {
  step: string;
  began_s: number;
  ended_s?: number | null;
  reached_ns?: number | null;
  best_ns?: number | null;
  lower_bound_ns?: number | null;
}

export interface Improvement {
  found_by: string;
  placement: string;
  objective_ns: number;
  seconds: number;
}

export interface GapPoint {
  seconds: number;
  best_ns: number | null;
  lower_bound_ns: number | null;
}

export interface Provenance {
  planner_version?: string;
  engine?: string;
  packages?: Record<string, string>;
  placement?: string | null;
  found_by?: string;
  stopped_by?: string;
  left_out?: string;
  started_from?: {
    kind: string;
    job_id?: string;
    distance?: number;
    placement?: string;
    found_by?: string;
    objective_ns?: number;
  } | null;
  ablation?: AblationStep[];
  steps?: Improvement[];
  gap_over_time?: GapPoint[];
  search_moves?: number;
  exact?: {
    engine: string;
    status: string;
    lower_bound_ns?: number | null;
    variables?: number;
    constraints?: number;
    rounds?: unknown[];
  } | null;
  solve_seconds?: number;
  queue_seconds?: number;
  attempts?: number;
  worker?: string;
  options?: Record<string, unknown>;
  assumptions?: Assumption[];
}

export interface PipelineResult {
  problem: Problem | null;
  schedule: ScheduleDocument | null;
  /** Null also where it is empty, as in a kept plan. */
  comparison: ComparisonRow[] | null;
  certificate: Certificate;
  robustness: Robustness | null;
  provenance: Provenance;
}

export function readResult(document: ResultDocument): PipelineResult {
  return {
    problem: document.problem ?? null,
    schedule: document.schedule ?? null,
    comparison: document.comparison?.length ? document.comparison : null,
    certificate: document.certificate ?? {},
    robustness: document.robustness ?? null,
    provenance: document.provenance ?? {},
  };
}
