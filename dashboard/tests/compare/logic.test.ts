import { describe, expect, it } from "vitest";
import type { IdleReason, Timeline } from "../../src/api/types";
import { deviceGains, largestChange, meanChanges } from "../../src/pages/compare/gains";
import { planMoves, totals } from "../../src/pages/compare/moves";
import { comparability } from "../../src/pages/compare/problems";
import { shardingDifference, stagePlans, sumOf } from "../../src/pages/compare/sharding-diff";
import { bestPlan, configurationPairs, stepParts } from "../../src/pages/compare/training-diff";
import { type Problem, readResult, type TimedOp } from "../../src/views/pipeline/types";

const PROBLEM: Problem = {
  micro_batches: 2,
  devices: [{ activation_memory_bytes: 10 }, { activation_memory_bytes: 10 }],
  stages: [
    { device: 0, forward_ns: 10, backward_input_ns: 20, backward_weight_ns: 0 },
    { device: 1, forward_ns: 10, backward_input_ns: 20, backward_weight_ns: 0 },
  ],
  transfers: [{ forward_ns: 1, backward_ns: 1 }],
};

describe("what can be compared", () => {
  it("is everything where the problems are equal but for names", () => {
    const other = { ...PROBLEM, stages: PROBLEM.stages.map((stage) => ({ ...stage, name: "x" })) };
    expect(scope(PROBLEM, other)).toEqual({
      differences: [],
      operations: true,
      devices: true,
      sameWork: true,
    });
  });

  it("is no operation where micro-batches, stages or their devices differ", () => {
    expect(scope(PROBLEM, { ...PROBLEM, micro_batches: 4 })).toMatchObject({
      differences: ["microBatches"],
      operations: false,
      devices: true,
      sameWork: false,
    });
    const swapped = { ...PROBLEM, stages: PROBLEM.stages.toReversed() };
    expect(scope(PROBLEM, swapped).differences).toEqual(["placement"]);
    expect(scope(PROBLEM, swapped).operations).toBe(false);
  });

  it("says that another placement of the same layers is the same work", () => {
    const halves = PROBLEM.stages.map((stage) => ({
      ...stage,
      forward_ns: 5,
      backward_input_ns: 10,
    }));
    const interleaved = { ...PROBLEM, stages: [...halves, ...halves] };
    expect(scope(PROBLEM, interleaved)).toMatchObject({
      differences: ["stages"],
      operations: false,
      devices: true,
      sameWork: true,
    });
  });

  it("keeps operations but not times where durations differ, and tells other limits", () => {
    const slower = {
      ...PROBLEM,
      devices: [{ activation_memory_bytes: 99 }, { activation_memory_bytes: null }],
      stages: PROBLEM.stages.map((stage) => ({ ...stage, forward_ns: 11 })),
    };
    expect(scope(PROBLEM, slower)).toEqual({
      differences: ["work", "limits"],
      operations: true,
      devices: true,
      sameWork: false,
    });
  });

  it("is nothing one by one where the devices differ in number", () => {
    const more = { ...PROBLEM, devices: [...PROBLEM.devices, {}] };
    expect(scope(PROBLEM, more).devices).toBe(false);
  });
});

describe("moves", () => {
  // Device 0 runs F0 F1 B0 in A, F0 B0 F1 in B; F0 is offloaded in A, F1 in B.
  const a = [
    op("F", 0, 0, 0),
    op("F", 0, 1, 10),
    op("O", 0, 0, 10),
    op("F", 1, 0, 11),
    op("B", 0, 0, 60),
  ];
  const b = [
    op("F", 0, 0, 0),
    op("F", 1, 0, 11),
    op("B", 0, 0, 45),
    op("F", 0, 1, 70),
    op("O", 0, 1, 80),
  ];
  const moves = planMoves(PROBLEM, a, b);

  it("are counted by device, as earlier, later and not at all", () => {
    expect(moves.devices).toEqual([
      {
        device: 0,
        operations: 3,
        earlier: 1,
        later: 1,
        same: 1,
        mostEarlierNs: -15,
        mostLaterNs: 60,
        swaps: 1,
      },
      {
        device: 1,
        operations: 1,
        earlier: 0,
        later: 0,
        same: 1,
        mostEarlierNs: 0,
        mostLaterNs: 0,
        swaps: 0,
      },
    ]);
    expect(totals(moves)).toMatchObject({ operations: 4, earlier: 1, later: 1, swaps: 1 });
  });

  it("are listed by how far", () => {
    expect(moves.largest.map((move) => [move.op, move.micro_batch, move.byNs])).toEqual([
      ["F", 1, 60],
      ["B", 0, -15],
    ]);
  });

  it("name the neighbours that run the other way round", () => {
    expect(moves.swaps).toEqual([
      {
        device: 0,
        first: { op: "F", stage: 0, micro_batch: 1 },
        second: { op: "B", stage: 0, micro_batch: 0 },
      },
    ]);
  });

  it("tell offloads of one plan only", () => {
    expect(moves.offloadsRemoved).toEqual([{ op: "O", stage: 0, micro_batch: 0 }]);
    expect(moves.offloadsAdded).toEqual([{ op: "O", stage: 0, micro_batch: 1 }]);
  });

  it("are none between a plan and itself", () => {
    expect(planMoves(PROBLEM, a, a)).toMatchObject({
      largest: [],
      swaps: [],
      offloadsAdded: [],
      offloadsRemoved: [],
    });
  });
});

describe("gains of devices", () => {
  const a = timeline(100, { dependency: 30, memory: 10 }, { dependency: 40 });
  const b = timeline(80, { dependency: 25 - 10, memory: 5 }, { fill: 15, dependency: 5 });
  const gains = deviceGains(a, b);

  it("add up to the change of the makespan, as a mean over the devices", () => {
    const changes = meanChanges(gains);
    expect(changes.map((change) => change.use)).toEqual(["dependency", "fill", "memory"]);
    expect(changes.reduce((sum, change) => sum + change.byNs, 0)).toBeCloseTo(80 - 100);
  });

  it("name the largest change in the direction of the whole", () => {
    expect(largestChange(gains, -20)).toEqual({ device: 1, reason: "dependency", byNs: -35 });
    expect(largestChange(gains, 20)).toEqual({ device: 1, reason: "fill", byNs: 15 });
    expect(largestChange(gains, 0)).toBeNull();
  });

  it("have idle time and peak of both", () => {
    expect(gains[0]).toMatchObject({
      idleNs: { a: 40, b: 20 },
      peakBytes: { a: 100, b: 80 },
    });
  });
});

describe("sharding plans", () => {
  const plan = (strategies: Record<string, string>, bytes = 1) => ({
    objective: 2 * bytes,
    operators: Object.entries(strategies).map(([name, strategy]) => ({
      name,
      strategy,
      redundant_bytes: bytes,
      communication_bytes: name === "out" ? 100 * bytes : bytes,
    })),
  });

  it("differ where an operator's strategy does, the most bytes first", () => {
    const difference = shardingDifference(
      { plan: plan({ qkv: "d1-r1-c8", out: "d1-r8-c1", norm: "d8-r1-c1", old: "d8-r1-c1" }) },
      { plan: plan({ qkv: "d8-r1-c1", out: "d8-r1-c1", norm: "d8-r1-c1", new: "d8-r1-c1" }, 3) },
    );
    expect(difference.changed.map((pair) => pair.name)).toEqual(["out", "qkv"]);
    expect(difference.alike).toBe(1);
    expect(difference.onlyInA.map((pair) => pair.name)).toEqual(["old"]);
    expect(difference.onlyInB.map((pair) => pair.name)).toEqual(["new"]);
  });

  it("of several stages are taken stage by stage", () => {
    const stages = { stages: [{ plan: plan({ qkv: "a" }) }, { plan: plan({ qkv: "b" }) }] };
    const other = { stages: [{ plan: plan({ qkv: "a" }) }, { plan: plan({ qkv: "c" }) }] };
    expect(shardingDifference(stages, other).changed.map((pair) => pair.stage)).toEqual([1]);
    expect(sumOf(stagePlans(stages), "objective")).toBe(4);
    expect(sumOf(stagePlans(stages), "memory_bytes")).toBeNull();
  });
});

describe("training plans", () => {
  it("are those that were chosen, not the first of the ranking", () => {
    const result = { plans: [{ rank: 1 }, { rank: 2 }], best: { rank: 2 } };
    expect(bestPlan(result)?.rank).toBe(2);
    expect(bestPlan({ plans: [{ rank: 1 }] })?.rank).toBe(1);
    expect(bestPlan({})).toBeNull();
  });

  it("are compared field by field, those that differ first", () => {
    const pairs = configurationPairs(
      { rank: 1, training: { zero_stage: 1, offload: false, layers_per_stage: Array(32).fill(1) } },
      { rank: 1, training: { zero_stage: 1, offload: true, interleaving: 2 } },
    );
    expect(pairs).toEqual([
      { field: "offload", a: "false", b: "true", differs: true },
      { field: "layers_per_stage", a: "32 × 1", b: null, differs: true },
      { field: "interleaving", a: null, b: "2", differs: true },
      { field: "zero_stage", a: "1", b: "1", differs: false },
    ]);
  });

  it("have the parts of the step, without its bound and the texts", () => {
    const step_time = { bubble_ns: 5, compute_ns: 50, bound_ns: 1, basis: {} };
    expect(stepParts({ rank: 1, step_time }, null)).toEqual([
      { part: "compute_ns", aNs: 50, bNs: null },
      { part: "bubble_ns", aNs: 5, bNs: null },
    ]);
  });
});

function scope(a: Problem, b: Problem) {
  return comparability(readResult({ problem: a }), readResult({ problem: b }));
}

function op(kind: TimedOp["op"], stage: number, micro_batch: number, start_ns: number): TimedOp {
  return { op: kind, stage, micro_batch, start_ns, end_ns: start_ns + 10 };
}

function timeline(
  makespanNs: number,
  ...idle: readonly Partial<Record<IdleReason, number>>[]
): Timeline {
  return {
    makespan_ns: makespanNs,
    devices: idle.map((given, device) => ({
      device,
      busy_ns: 60,
      peak_bytes: makespanNs,
      idle_ns: { fill: 0, dependency: 0, memory: 0, link: 0, slack: 0, drain: 0, ...given },
    })),
  } as unknown as Timeline;
}
