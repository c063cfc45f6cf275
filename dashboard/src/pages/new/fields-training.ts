/** Fields of the training: given, left to be searched, or of a sharding plan. */

import { type Field, field, type Options, type Section } from "./field";

const PRECISIONS = ["bf16", "fp16", "fp32"];
export const DEGREES = ["tensor", "pipeline", "data", "context", "expert"] as const;

function degrees(standard: Record<string, string> = {}): Field[] {
  return DEGREES.map((name) =>
    field(`training.${name}_parallel`, "whole", `training.${name}_parallel`, {
      ...(standard[name] === undefined ? {} : { standard: standard[name] }),
    }),
  );
}

const zeroStage = () =>
  field("training.zero_stage", "whole", "training.zero_stage", { standard: "0" });
const optimizer = () =>
  field("training.optimizer", "choice", "training.optimizer", {
    choices: ["adam", "sgd_momentum", "sgd"],
    standard: "adam",
  });
const precision = () =>
  field("training.precision", "choice", "training.precision", {
    choices: PRECISIONS,
    standard: "bf16",
  });
const gradientPrecision = () =>
  field("training.gradient_precision", "choice", "training.gradient_precision", {
    choices: ["fp32", "same"],
    standard: "fp32",
  });
const flashAttention = () =>
  field("training.flash_attention", "flag", "training.flash_attention", { standard: "true" });
const recomputation = (options: Options) =>
  field("training.recomputation", "choice", "training.recomputation", {
    choices: ["none", "selective", "full"],
    ...options,
  });
const microBatchSize = (options: Options) =>
  field("training.micro_batch_size", "whole", "training.micro_batch_size", {
    unit: "samples",
    ...options,
  });
const globalBatchSize = () =>
  field("training.global_batch_size", "whole", "training.global_batch_size", { unit: "samples" });
const sequenceLength = () =>
  field("training.sequence", "whole", "training.sequence", { unit: "tokens" });
const microBatchOrder = (at: string) =>
  field(`${at}.micro_batch_order`, "choice", "training.micro_batch_order", {
    choices: ["fixed", "free"],
    standard: "fixed",
  });
const objective = (at: string) =>
  field(`${at}.objective`, "choice", "training.objective", {
    choices: ["makespan", "steady_span"],
    standard: "makespan",
  });

function offloadDetails(): Field[] {
  return [
    field("training.offload_compression", "choice", "training.offload_compression", {
      choices: ["none", "fp8", "top_k", "auto"],
      standard: "none",
    }),
    field("training.offload_top_k", "number", "training.offload_top_k"),
    field("training.offload_tier", "choice", "training.offload_tier", {
      choices: ["dram", "ssd", "auto"],
      standard: "dram",
    }),
  ];
}

function trainingDetails(): Field[] {
  return [
    field("training.expert_load", "number", "training.expert_load", { standard: "1" }),
    field("training.sequence_parallel", "flag", "training.sequence_parallel"),
    gradientPrecision(),
    optimizer(),
    field("training.split_backward", "flag", "training.split_backward"),
    ...offloadDetails(),
  ];
}

export function training(): Section {
  const [tensor, pipeline, data, context, expert] = degrees({
    tensor: "1",
    context: "1",
    expert: "1",
  }) as [Field, Field, Field, Field, Field];
  return {
    title: "training",
    main: [
      microBatchSize({ standard: "1" }),
      field("training.micro_batches", "whole", "training.micro_batches"),
      globalBatchSize(),
      pipeline,
      tensor,
      data,
      field("training.interleaving", "whole", "training.interleaving"),
      zeroStage(),
      recomputation({ standard: "none" }),
      precision(),
      field("training.offload", "flag", "training.offload", { standard: "true" }),
      flashAttention(),
      objective("training"),
    ],
    more: [
      context,
      expert,
      sequenceLength(),
      field("training.layers_per_stage", "wholes", "training.layers_per_stage"),
      microBatchOrder("training"),
      ...trainingDetails(),
    ],
  };
}

/** Of a training plan: what is given is kept, what is not is searched. */
export function fixedTraining(): Section {
  return {
    title: "fixedTraining",
    main: [globalBatchSize(), sequenceLength(), precision(), flashAttention()],
    more: [
      ...degrees(),
      microBatchSize({}),
      field("training.interleaving", "whole", "training.interleaving"),
      field("training.zero_stage", "whole", "training.zero_stage"),
      recomputation({}),
      field("training.offload", "flag", "training.offload"),
      field("training.layers_per_stage", "wholes", "training.layers_per_stage"),
      microBatchOrder("training"),
      ...trainingDetails(),
    ],
  };
}

export function shardingTraining(): Section {
  return {
    title: "training",
    main: [
      precision(),
      optimizer(),
      zeroStage(),
      field("training.sequence_parallel", "flag", "sharding.sequence_parallel", {
        standard: "false",
      }),
    ],
    more: [
      gradientPrecision(),
      field("training.micro_batches", "whole", "sharding.micro_batches", { standard: "1" }),
      flashAttention(),
      field("training.dropout", "flag", "sharding.dropout", { standard: "false" }),
    ],
  };
}

export function measured(): Section {
  return {
    title: "problem",
    main: [
      field("problem.micro_batches", "whole", "problem.micro_batches"),
      objective("problem"),
      microBatchOrder("problem"),
      field("problem.host_link_duplex", "choice", "cluster.host_link_duplex", {
        choices: ["full", "half"],
        standard: "full",
      }),
    ],
    more: [],
  };
}
