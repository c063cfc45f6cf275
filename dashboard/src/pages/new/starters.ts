/** Bodies to start from where there is nothing yet. Small, complete, and as in the documentation. */

import type { Kind } from "../../api/types";
import type { JsonObject } from "./json-text";

export const BODIES: Record<Kind, JsonObject> = {
  pipeline: {
    model: "GPT-14.2B",
    cluster: { gpu: "A100-40GB", nodes: 1, gpus_per_node: 8 },
    training: { micro_batch_size: 1, micro_batches: 32 },
  },
  sharding: {
    transformer: { preset: "BERT-Large", layers: 24, batch: 8, sequence: 512 },
    devices: { gpu: "A100-40GB", nodes: 1, gpus_per_node: 4 },
  },
  training: {
    model: "Llama-3-70B",
    cluster: { gpu: "H100-80GB", nodes: 64, gpus_per_node: 8 },
    training: { global_batch_size: 1024, sequence: 8192 },
  },
};

const GIB = 2 ** 30;
const STAGE = {
  forward_ns: 18_000_000,
  backward_input_ns: 18_000_000,
  backward_weight_ns: 9_000_000,
  activation_bytes: GIB / 4,
  weight_grad_bytes: GIB / 8,
};

/** The parts of each source. */
export const STARTERS: Record<"model" | "problem" | "transformer" | "graph", JsonObject> = {
  model: BODIES.pipeline,
  transformer: { transformer: BODIES.sharding.transformer ?? {} },
  problem: {
    problem: {
      micro_batches: 8,
      devices: [{ activation_memory_bytes: GIB }, { activation_memory_bytes: GIB }],
      stages: [
        { device: 0, ...STAGE },
        { device: 1, ...STAGE },
      ],
      transfers: [{ forward_ns: 1_000_000, backward_ns: 1_000_000 }],
    },
  },
  graph: {
    graph: {
      inputs: [{ name: "x", shape: [16, 512, 1024], dtype: "bf16" }],
      operators: [
        {
          name: "up",
          kind: "linear",
          inputs: ["x"],
          outputs: [{ name: "h", shape: [16, 512, 4096], dtype: "bf16" }],
          parameters: [{ name: "weight", shape: [1024, 4096] }],
        },
      ],
    },
  },
};
