/** Fields of what a plan is judged by, of the search, the solver and the job. */

import { type Field, field, type Section } from "./field";
import { DEGREES } from "./fields-training";

const ENGINES = ["auto", "cp_sat", "highs", "cbc"];

export function judging(): Section {
  return {
    title: "judging",
    main: [
      field("alpha", "numbers", "sharding.alpha", { standard: "1" }),
      field("pareto", "flag", "sharding.pareto", { standard: "false" }),
      field("stages", "whole", "sharding.stages", { standard: "1" }),
      field("device_memory_bytes", "bytesPerStage", "sharding.device_memory_bytes"),
    ],
    more: [
      field("communication", "choice", "sharding.communication", {
        choices: ["volume", "time"],
        standard: "volume",
      }),
      field("redundancy", "choice", "sharding.redundancy", {
        choices: ["source", "mesh"],
        standard: "source",
      }),
      field("objective.computation_imbalance", "number", "sharding.computation_imbalance", {
        standard: "0",
      }),
      field("objective.energy", "number", "sharding.energy", { standard: "0" }),
    ],
  };
}

export function search(): Section {
  return {
    title: "search",
    main: [
      field("search.top", "whole", "search.top", { standard: "5" }),
      field("search.finalists", "whole", "search.finalists", { standard: "3" }),
      field("search.pareto", "flag", "search.pareto", { standard: "false" }),
      field("memory_headroom", "number", "search.memory_headroom", { standard: "0.05" }),
    ],
    more: [
      ...DEGREES.map((name) =>
        field(`search.${name}_parallel`, "wholes", `training.${name}_parallel`),
      ),
      field("search.micro_batch_size", "wholes", "training.micro_batch_size", { unit: "samples" }),
      field("search.interleaving", "wholes", "training.interleaving"),
      field("search.zero_stage", "wholeChoices", "training.zero_stage", {
        choices: ["0", "1", "2", "3"],
      }),
      field("search.recomputation", "textChoices", "training.recomputation", {
        choices: ["none", "selective", "full"],
      }),
      field("search.offload", "flagChoices", "training.offload", { choices: ["false", "true"] }),
      field("search.devices", "wholes", "search.devices"),
    ],
  };
}

function solver(engine: Field): Field[] {
  return [
    field("solver.time_limit_s", "number", "solver.time_limit_s", { standard: "60", unit: "s" }),
    engine,
    field("solver.mip_gap", "number", "solver.mip_gap", { standard: "0" }),
    field("solver.threads", "whole", "solver.threads", { standard: "2" }),
  ];
}

const scheduleEngine = () =>
  field("solver.engine", "choice", "solver.engine", { choices: ENGINES, standard: "auto" });
const seed = () => field("solver.seed", "whole", "solver.seed", { standard: "0" });

export function schedulingSolver(): Section {
  return {
    title: "solver",
    main: [...solver(scheduleEngine()), seed()],
    more: [
      field("solver.search_iterations", "whole", "solver.search_iterations"),
      field("solver.offload_time_factor", "number", "solver.offload_time_factor", {
        standard: "1",
      }),
      field("solver.backward_delay_tolerance_ms", "number", "solver.backward_delay_tolerance_ms", {
        standard: "5",
        unit: "ms",
      }),
      field("solver.offload_strategy", "choice", "solver.offload_strategy", {
        choices: ["aggressive", "conservative"],
      }),
      field("solver.offload_threshold", "number", "solver.offload_threshold"),
      field("solver.milp_window_micro_batches", "whole", "solver.milp_window_micro_batches"),
      field("solver.adaoffload_warm_start", "flag", "solver.adaoffload_warm_start", {
        standard: "true",
      }),
    ],
  };
}

export function shardingSolver(): Section {
  const engine = field("solver.engine", "choice", "solver.engine", {
    choices: ["cbc", "highs"],
    standard: "cbc",
  });
  return {
    title: "solver",
    main: solver(engine),
    more: [
      field("solver.exact", "flag", "solver.exact", { standard: "false" }),
      field("solver.reductions", "flag", "solver.reductions", { standard: "true" }),
    ],
  };
}

export function trainingSolver(): Section {
  return { title: "solver", main: [...solver(scheduleEngine()), seed()], more: [] };
}

export function job(): Section {
  return {
    title: "job",
    main: [
      field("name", "text", "job.name"),
      field("tags", "texts", "job.tags"),
      field("priority", "whole", "job.priority", { standard: "5" }),
    ],
    more: [],
  };
}
