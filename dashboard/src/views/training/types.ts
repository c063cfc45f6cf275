/** What the views read of a training plan's result; docs/api.md says what each part means. */

import type { Assumption, ResultDocument } from "../../api/types";

/** What is known of each plan: of those listed and of the points of the Pareto front. */
export interface Figures {
  devices: number;
  tensor_parallel: number;
  pipeline_parallel: number;
  data_parallel: number;
  context_parallel: number;
  expert_parallel: number;
  micro_batch_size: number;
  interleaving: number;
  zero_stage: number;
  recomputation: string;
  offload: boolean;
  step_time_ns: number;
  samples_per_s: number;
  tokens_per_s: number;
  mfu: number | null;
  peak_bytes: number;
  limit_bytes: number;
  headroom_bytes: number;
  training: Record<string, unknown>;
}

export interface StepTime {
  compute_ns: number;
  bubble_ns: number;
  transfer_ns: number;
  epilogue_ns: number;
  offload_wait_ns?: number;
  bound_ns?: number;
  basis?: Record<string, string>;
}

export interface RankMemory {
  rank: number;
  layers: number;
  micro_batches_in_flight: number;
  parameters_bytes: number;
  gradients_bytes: number;
  optimizer_bytes: number;
  gathered_parameters_bytes?: number;
  activations_bytes: number;
  embedding_activations_bytes?: number;
  logits_bytes?: number;
  workspace_bytes?: number;
  communication_buffers_bytes?: number;
  reserved_bytes?: number;
  offloaded_bytes?: number;
  total_bytes: number;
  headroom_bytes: number;
}

/** What came of a finalist's schedule; without a makespan `why_not` says why there is none. */
export interface FinalistSchedule {
  makespan_ns: number | null;
  lower_bound_ns?: number;
  gap?: number | null;
  found_by?: string;
  why_not?: string;
}

export interface TrainedPlan extends Figures {
  rank: number;
  micro_batches: number;
  sequence_parallel?: boolean;
  layers_per_stage?: number[];
  expert_load?: number | null;
  step_time?: StepTime;
  fits: boolean;
  offloading?: { share_by_rank: number[]; busiest_link: number; wait_ns: number } | null;
  memory_per_rank?: RankMemory[];
  verified?: { schedule: string; makespan_ns: number; deviation: number } | null;
  schedule?: FinalistSchedule | null;
  reasons?: string[];
}

export interface Searched {
  devices?: number[];
  enumerated: number;
  worked_out: number;
  fits: number;
  dropped?: Record<string, number>;
  left_out?: Record<string, number>;
  rules?: Record<string, string>;
  complete: boolean;
}

export interface Dropped {
  configuration: string;
  rule: string;
  why: string;
  bound_ns?: number;
  bytes?: number;
  limit_bytes?: number;
  detail?: string;
}

export interface ExpertLayers {
  layers: number[];
  experts_of_device: number[][];
  load_of_device: number[];
  load_factor: number;
  default_load_factor: number;
  gap: number | null;
  status: string;
  found_by?: string;
  proof?: string;
}

export interface Experts {
  expert_parallel: number;
  layers: ExpertLayers[];
  load_factor: number;
  time_s: number;
  gap: number | null;
  status: string;
  default?: { load_factor: number; time_s: number; fits: boolean };
  gain?: number;
  traffic?: { in_node_share: number; cross_node_share: number; own_share: number };
  basis?: Assumption[];
}

export interface Best {
  rank: number;
  step_time_ns: number;
  training: Record<string, unknown>;
  schedule?: ResultDocument | null;
  sharding?: ResultDocument | null;
  experts?: Experts | null;
  left_out?: Record<string, string>;
}

export interface TrainingCertificate {
  verified: boolean;
  verifier?: string;
  proven_optimal: boolean;
  value_ns: number;
  lower_bound_ns: number | null;
  bound_name?: string;
  gap: number | null;
  ranking_complete?: boolean;
  scope?: string[];
}

export interface TrainingProvenance {
  planner_version?: string;
  engine?: string;
  solve_seconds?: number;
  queue_seconds?: number;
  attempts?: number;
  request?: Record<string, unknown>;
}

export interface TrainingResult {
  plans?: TrainedPlan[];
  best?: Best;
  searched?: Searched;
  dropped?: Dropped[];
  pareto?: Figures[];
  certificate?: TrainingCertificate;
  assumptions?: Assumption[];
  warnings?: string[];
  provenance?: TrainingProvenance;
}
