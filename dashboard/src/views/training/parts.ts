/** What a step's time and a rank's memory are made of. */

import type { RankMemory, StepTime } from "./types";

export const STEP_PARTS = [
  "compute_ns",
  "bubble_ns",
  "transfer_ns",
  "epilogue_ns",
  "offload_wait_ns",
] as const;
export type StepPart = (typeof STEP_PARTS)[number];

export const MEMORY_PARTS = [
  "parameters_bytes",
  "gradients_bytes",
  "optimizer_bytes",
  "gathered_parameters_bytes",
  "activations_bytes",
  "embedding_activations_bytes",
  "logits_bytes",
  "workspace_bytes",
  "communication_buffers_bytes",
  "reserved_bytes",
] as const;
export type MemoryPart = (typeof MEMORY_PARTS)[number];

/** A part of the step; what was not reported took no time. */
export function stepPart(step: StepTime, part: StepPart): number {
  return step[part] ?? 0;
}

/** A part of what lies on the GPU. Offloaded activations lie in host memory, so that the parts add
 * up to the total. */
export function memoryPart(rank: RankMemory, part: MemoryPart): number {
  const size = rank[part] ?? 0;
  return part === "activations_bytes" ? size - (rank.offloaded_bytes ?? 0) : size;
}

/** The parts that any of the ranks has. */
export function usedMemoryParts(ranks: readonly RankMemory[]): MemoryPart[] {
  return MEMORY_PARTS.filter((part) => ranks.some((rank) => memoryPart(rank, part) > 0));
}
