/**
 * What people read for the words of the service. Names are by kind, under the word that the service
 * has; `#` stands for a number. A test holds the keys to those of the planner.
 */
export const service = {
  names: {
    bound: {
      "arrival and work": "arrival and work",
      "work and drain": "work and drain",
      "critical path": "critical path",
      "memory-time": "memory-time",
      "fill idle": "fill idle",
      "drain idle": "drain idle",
      "fill and drain idle": "fill and drain idle",
      tail: "tail",
      recycling: "recycling",
      "implied precedences": "implied precedences",
      "LP relaxation": "LP relaxation",
      cbc: "CBC",
      highs: "HiGHS",
      "CP-SAT": "CP-SAT",
      "busiest rank's work": "busiest rank's work",
    },
    step: {
      "stored schedule": "stored schedule",
      "classic schedules": "classic schedules",
      AdaOffload: "AdaOffload",
      "more starts": "more starts",
      "local search": "local search",
      "linear relaxation": "linear relaxation",
      cbc: "CBC",
      highs: "HiGHS",
      cp_sat: "CP-SAT",
    },
    foundBy: {
      "stored schedule": "stored schedule",
      "one micro-batch at a time": "one micro-batch at a time",
      AdaOffload: "AdaOffload",
      "list schedule # within memory": "list schedule # within memory",
      "repeated period": "repeated period",
      "local search": "local search",
      cbc: "CBC",
      highs: "HiGHS",
      "CP-SAT": "CP-SAT",
    },
    stoppedBy: {
      "proven optimal": "proven optimal",
      "MIP gap reached": "MIP gap reached",
      "asked to stop": "asked to stop",
      "time limit": "time limit",
      "search budget used up": "search budget used up",
      "nothing left to try": "nothing left to try",
      cancelled: "cancelled",
      "memory limit": "memory limit",
    },
    start: {
      earlier_attempt: "an earlier attempt of this solve",
      other_limit: "the same work under other memory limits",
      nearest_profile: "the most similar problem",
      verification: "the verification of a training plan",
      running_plan: "the plan that a training run runs",
    },
    status: {
      optimal: "optimal",
      gap: "within the gap",
      time_limit: "time limit",
      stopped: "stopped",
    },
    placement: {
      as_posted: "as_posted",
      one_chunk: "one_chunk",
      "interleaved_#": "interleaved_#",
      v_shape: "v_shape",
    },
    reason: {
      "not computed: the time was up": "not computed: the time was up",
      "no stage can offload anything": "no stage can offload anything",
      "not computed: too many operations for a schedule planned under memory limits":
        "not computed: too many operations for a schedule planned under memory limits",
      "out of memory: one micro-batch at a time does not fit with its offloads":
        "out of memory: one micro-batch at a time does not fit with its offloads",
      "the backward is fused, so there is no weight gradient to fill bubbles with":
        "the backward is fused, so there is no weight gradient to fill bubbles with",
    },
    rule: {
      states: "states",
      activations: "activations",
      slower: "slower",
      milder: "milder",
      not_reached: "not looked at",
      batch: "batch",
      operations: "operations",
      sequence: "sequence",
      verification: "verification",
      data_parallelism: "data parallelism alone",
    },
    ruleWhy: {
      states: "Parameters, gradients and optimizer states alone exceed a GPU's memory.",
      activations: "States fit, but not with 1F1B's activations, offloaded where that is allowed.",
      slower:
        "Its bound is above the predicted step of the last plan that is listed (and of no point of the Pareto front).",
      milder: "With less ZeRO, recomputation or offloading the same degrees are as fast or faster.",
      not_reached: "Not looked at: the search was stopped.",
      batch: "The data degree does not divide the global batch.",
      operations: "More operations or micro-batches per step than are planned.",
      sequence: "The sequence cannot be divided so.",
      verification: "It fits by the closed form, but did not pass verification.",
      data_parallelism: "Data parallelism alone, the simplest way to train.",
    },
    baseline: {
      "Megatron-LM": "Megatron-LM",
      "Megatron-LM (tensor #, data #)": "Megatron-LM (tensor #, data #)",
      "least communication (Alpa)": "least communication (Alpa)",
      "least time with checkpointing (Colossal-Auto)":
        "least time with checkpointing (Colossal-Auto)",
      "data parallel": "data parallel",
      "fully sharded data parallel": "fully sharded data parallel",
    },
    memoryPart: {
      "parameters, gradients and optimizer states": "parameters, gradients and optimizer states",
      activations: "activations",
      logits: "logits",
      "workspace of a layer's backward": "workspace of a layer's backward",
      "gathered parameters": "gathered parameters",
      "communication buffers": "communication buffers",
      reserve: "reserve",
    },
    remedy: {
      device_memory: "more memory on the devices",
      host_memory: "more host memory",
      offload: "offload activations",
      more_stages: "more stages",
      smaller_micro_batch: "smaller micro-batches",
      recomputation: "recomputation",
      tensor_parallel: "higher tensor degree",
      zero_stage: "ZeRO stage",
      micro_batch_size: "micro-batch size",
      degrees: "other degrees",
      gpu: "GPUs with more memory",
      checkpointing: "activation checkpointing",
      mixed_precision: "mixed precision",
      optimizer_in_host_memory: "optimizer states in host memory",
      together: "all of them together",
    },
  },
  device: (index: number) => `device ${index}`,
  host: (index: number) => `host ${index}`,
  outOfMemory: (where: string, needed: string, limit: string, missing: string) =>
    `out of memory: ${where} needs ${needed} and has ${limit}, ${missing} too little`,
  noMicroBatch: (count: number, microBatches: string, parts: string) =>
    count === 1
      ? `Micro-batch ${microBatches} does not fit into memory, not even with nothing else in it: ${parts}.`
      : `Micro-batches ${microBatches} do not fit into memory, not even one at a time with nothing else in it: ${parts}.`,
  deviceShort: (devices: string, needed: string, limit: string) =>
    `on device ${devices} it takes at least ${needed} for activations, and the limit is ${limit}`,
  partsMark: "; ",
  hostShort: (host: number, needed: string, limit: string) =>
    `host ${host} has ${limit} for offloaded activations and would need ${needed}`,
  statesShort: (devices: string, states: string, needed: string, limit: string) =>
    `On device ${devices} parameters, gradients, optimizer states and the reserve take ${states}, and ${needed} with a single micro-batch beside them; there are ${limit}.`,
};
