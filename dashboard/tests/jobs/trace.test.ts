import { expect, it } from "vitest";
import { traceOf } from "../../src/pages/job/trace";
import { stepOf } from "../live/samples";

it("has a point for each change of best or bound, and one for now", () => {
  const steps = [
    stepOf({ seq: 0, state: "queued" }),
    stepOf({ seq: 1, spent_s: 1, lower_bound_ns: 50 }),
    stepOf({ seq: 2, spent_s: 2, lower_bound_ns: 50, best_makespan_ns: 100 }),
    stepOf({ seq: 3, spent_s: 3, lower_bound_ns: 50, best_makespan_ns: 100, phase: "cp_sat" }),
    stepOf({ seq: 4, spent_s: 4, lower_bound_ns: 60, best_makespan_ns: 90 }),
  ];
  expect(traceOf("pipeline", steps, 9)).toEqual({
    unit: "ns",
    points: [
      { seconds: 1, best: null, bound: 50 },
      { seconds: 2, best: 100, bound: 50 },
      { seconds: 4, best: 90, bound: 60 },
      { seconds: 9, best: 90, bound: 60 },
    ],
  });
});

it("keeps what an earlier attempt had found, and never goes back in time", () => {
  const steps = [
    stepOf({ spent_s: 5, best_objective_bytes: 10 }),
    stepOf({ spent_s: 4, state: "queued", detail: "the worker was lost" }),
    stepOf({ spent_s: 6, lower_bound_bytes: 7 }),
  ];
  expect(traceOf("sharding", steps, 0).points).toEqual([
    { seconds: 5, best: 10, bound: null },
    { seconds: 6, best: 10, bound: 7 },
  ]);
});

it("is empty where nothing is known", () => {
  expect(traceOf("training", [stepOf()], 10).points).toEqual([]);
});
