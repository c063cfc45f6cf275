/** What the views read of a sharding plan's result; docs/api.md says what each part means. */

import type { Provenance } from "../../components/provenance";

export interface StrategyCost {
  name: string;
  redundant_bytes: number;
  communication_bytes: number;
  memory_bytes: number;
}

export interface Instance {
  operators: { name: string; strategies: StrategyCost[] }[];
  edges: { from: number; to: number; resharding_bytes: number[][] }[];
  alpha: number;
  device_memory_bytes: number | null;
}

export interface PlannedOperator {
  name: string;
  kind: string;
  strategy: string;
  layers: number;
}

export interface Resharding {
  from: string;
  to: string;
  tensor: string;
  bytes: number;
  counted_as: "resharding" | "communication";
}

export interface Plan {
  choice: number[];
  objective: number;
  memory_bytes: number;
  status: string;
  lower_bound: number | null;
  redundant_bytes?: number;
  communication_bytes?: number;
  resharding_bytes?: number;
  predicted_peak_bytes?: number | null;
  device_memory_bytes?: number | null;
  predicted_step_ns?: number | null;
  relative_throughput?: number | null;
  operators?: PlannedOperator[];
  resharding?: Resharding[];
}

export interface Baseline {
  name: string;
  modelled?: string;
  not_modelled?: string;
  applicable: boolean;
  reason: string | null;
  proven?: boolean | null;
  memory_bytes?: number | null;
  predicted_peak_bytes?: number | null;
  fits?: boolean | null;
  redundant_bytes?: number | null;
  communication_bytes?: number | null;
  resharding_bytes?: number | null;
  objective?: number | null;
  note?: string | null;
  predicted_step_ns?: number | null;
  relative_throughput?: number | null;
  strategies?: string[] | null;
}

export interface Certificate {
  verified: boolean;
  verifier?: string;
  proven_optimal: boolean;
  objective: number;
  lower_bound: number | null;
  gap: number | null;
  proof?: Record<string, unknown> | null;
  fits?: boolean;
  layers_apart_bound?: number | null;
  scope?: string[];
}

export interface SweepRow {
  alpha: number;
  status: string;
  proven: boolean | null;
  gap: number | null;
  objective?: number;
  memory_bytes?: number;
  redundant_bytes?: number;
  /** Own collectives and resharding together. */
  communication_bytes?: number;
  predicted_peak_bytes?: number | null;
  strategies?: string[];
}

export interface FrontPoint {
  redundant_bytes: number;
  /** Own collectives and resharding together. */
  communication_bytes: number;
  memory_bytes: number;
  predicted_peak_bytes: number | null;
  fits: boolean | null;
  choice: number[];
  proven: boolean;
}

export interface Explanation {
  operator: string;
  strategy: string;
  possible: boolean | null;
  proven?: boolean;
  reason: string;
  objective_difference?: number;
  redundant_bytes_difference?: number;
  communication_bytes_difference?: number;
  resharding_bytes_difference?: number;
  memory_bytes_difference?: number;
}

/** The plan of one graph on one group of devices: a whole result, or that of one stage. */
export interface ShardingDocument {
  instance?: Instance;
  plan?: Plan;
  baselines?: Baseline[];
  certificate?: Certificate;
  sweep?: SweepRow[];
  pareto?: FrontPoint[];
  pareto_complete?: boolean;
  explanations?: Explanation[];
  /** Of a stage: how many layers it has, on how many devices. */
  layers?: number;
  devices?: number;
}

export interface ShardingResult extends ShardingDocument {
  stages?: ShardingDocument[];
  provenance?: Provenance;
}
