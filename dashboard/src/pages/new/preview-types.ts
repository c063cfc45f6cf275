/** What `validate_only` answers, as far as it is shown. */

import type { Assumption } from "../../api/types";
import type { Json } from "./json-text";

export interface PipelinePreview {
  options: Record<string, unknown>;
  placements: PlacementPreview[];
  assumptions: Assumption[];
  static_shortage: Shortage | null;
}

export interface PlacementPreview {
  placement: string;
  problem: ProblemPreview;
  feasible: boolean;
  infeasibility: Shortage | null;
  lower_bound_ns: number;
  bounds: { name: string; value_ns: number }[];
}

/** A quantity, or one per micro-batch. */
export type Quantity = number | number[];

export interface ProblemPreview {
  micro_batches: number;
  devices: {
    name?: string;
    activation_memory_bytes?: number | null;
    epilogue_ns?: number;
    host_link?: string;
  }[];
  stages: StagePreview[];
}

export interface StagePreview {
  name?: string;
  device: number;
  forward_ns: Quantity;
  backward_input_ns: Quantity;
  backward_weight_ns?: Quantity;
  activation_bytes?: Quantity;
  offload_ns?: Quantity;
  reload_ns?: Quantity;
}

export interface Shortage {
  summary: string;
  placement?: string;
  devices: number[];
  bytes: number[];
  limit_bytes: (number | null)[];
  smallest_limit_bytes?: number[];
  micro_batches?: number[];
  remedies: {
    remedy: string;
    fits: boolean | null;
    detail: string;
    request_changes?: Record<string, Json> | null;
  }[];
}

export interface ShardingPreview {
  options: Record<string, unknown>;
  graph: {
    operators: { name: string; kind: string }[];
    repeat?: { count: number } | null;
  };
  devices: { count: number };
  memory_limits: (number | null)[];
  operators: { name: string; strategies: string[] }[];
  warnings: string[];
  assumptions: Assumption[];
}

export interface TrainingPreview {
  options: Record<string, unknown>;
  devices: number[];
  enumerated: number;
  left_out: Record<string, number>;
  assumptions: Assumption[];
}

export type Preview = PipelinePreview | ShardingPreview | TrainingPreview;
