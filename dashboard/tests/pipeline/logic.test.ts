import { describe, expect, it } from "vitest";
import type { ComparisonRow, IdleReason, ResultDocument, Timeline } from "../../src/api/types";
import { gapOf, sortedBounds, verdict, waysToClose } from "../../src/views/pipeline/bounds";
import { bestClassic, byObjective, contenders, OURS } from "../../src/views/pipeline/comparison";
import { foundAt, stepRows } from "../../src/views/pipeline/found";
import { deviceShares, idleByReason, longestWait } from "../../src/views/pipeline/idle";
import { missingParts } from "../../src/views/pipeline/missing";
import { namesake } from "../../src/views/pipeline/namesake";
import {
  bubbleRatio,
  fullestDevice,
  largestPeak,
  objectiveNs,
  offloadCount,
} from "../../src/views/pipeline/plan-facts";
import { readResult } from "../../src/views/pipeline/types";

const GPIPE = row("GPipe", 120, true);
const ONE_F_ONE_B = row("1F1B", 90, false);
const MISSED = row("V-Min", null, false);

describe("facts of a plan", () => {
  it("counts the bubble over the devices that run something", () => {
    const { problem, schedule } = complete();
    // 60 + 40 ns of work on two of three devices in 100 ns.
    expect(bubbleRatio(problem, schedule)).toBeCloseTo(0.5);
    expect(offloadCount(schedule)).toBe(1);
  });

  it("takes the device nearest to its limit for the fullest, not the one with most bytes", () => {
    expect(fullestDevice(readResult(complete()))).toEqual({
      device: 1,
      bytes: 90,
      limitBytes: 100,
    });
    expect(largestPeak(readResult(complete()))).toBe(500);
  });

  it("takes the certificate's value, else the objective's own figure", () => {
    const document = complete();
    expect(objectiveNs(readResult(document))).toBe(100);
    document.certificate = { objective: "steady_span" };
    expect(objectiveNs(readResult(document))).toBe(95);
  });
});

describe("the comparison", () => {
  it("puts the plan first and compares only what fits", () => {
    const all = contenders(readResult(complete()));
    expect(all.map((entry) => entry.name)).toEqual([OURS, "GPipe", "1F1B", "V-Min"]);
    expect(all[1]?.slowerBy).toBeCloseTo(0.2);
    expect(all[2]?.slowerBy).toBeNull();
  });

  it("splits the makespan in parts that add up, the epilogue apart from idle time", () => {
    const document = complete();
    for (const device of document.problem.devices) {
      device.epilogue_ns = 12;
    }
    const [, gpipe] = contenders(readResult(document));
    expect(gpipe?.split?.compute).toBeCloseTo(0.75);
    expect(gpipe?.split?.epilogue).toBeCloseTo(0.1);
    expect(gpipe?.split?.idle).toBeCloseTo(0.15);
    expect(gpipe?.bubbleRatio).toBeCloseTo(0.25);
  });

  it("tells a plan from the row that it bears the name of", () => {
    const all = contenders(readResult(complete()));
    expect(namesake("1f1b", all)?.name).toBe("1F1B");
    expect(namesake("local search", all)).toBeNull();
    const own = all.map((row) => (row.isOurs ? { ...row, objectiveNs: 120 } : row));
    expect(namesake("GPipe", own)).toBeNull();
    expect(namesake("GPipe", all)?.name).toBe("GPipe");
  });

  it("sorts by the objective and leaves out rows without figures", () => {
    const sorted = byObjective(contenders(readResult(complete())));
    expect(sorted.map((entry) => entry.name)).toEqual(["1F1B", OURS, "GPipe"]);
    expect(bestClassic(sorted)?.name).toBe("GPipe");
  });

  it("compares by the steady span where that is the objective", () => {
    const document = complete();
    document.certificate.objective = "steady_span";
    const [ours, gpipe] = contenders(readResult(document));
    expect([ours?.objectiveNs, gpipe?.objectiveNs]).toEqual([95, 118]);
  });
});

describe("bounds", () => {
  it("sorts them and leaves out those that are 0", () => {
    expect(sortedBounds(readResult(complete())).map((bound) => bound.name)).toEqual([
      "recycling",
      "tail",
    ]);
  });

  it("tells a proof from a gap and from no bound", () => {
    const document = complete();
    expect(verdict(readResult(document))).toBe("gap");
    expect(
      verdict(readResult({ ...document, certificate: { proven_optimal: true, value_ns: 1 } })),
    ).toBe("proven");
    expect(verdict(readResult({ ...document, certificate: { value_ns: 1 } }))).toBe("noBound");
    expect(verdict(readResult({}))).toBe("unknown");
  });

  it("works the gap out where the certificate has none", () => {
    const document = complete();
    document.certificate.gap = undefined;
    expect(gapOf(readResult(document))).toBeCloseTo(0.2);
  });

  it("names what would close the gap by what ended the solve", () => {
    const document = complete();
    expect(waysToClose(readResult(document))).toEqual(["closeTime", "closeSmall"]);
    document.provenance.stopped_by = "search budget used up";
    document.provenance.exact = { engine: "cp_sat", status: "time_limit" };
    expect(waysToClose(readResult(document))).toEqual([
      "closeBudget",
      "closeEngineSize",
      "closeSmall",
    ]);
  });
});

describe("idle time", () => {
  it("names the device that waits longest and what for", () => {
    expect(longestWait(timeline())).toEqual({
      device: 1,
      idleNs: 60,
      idleShare: 0.6,
      reason: "memory",
      shareOfIdle: 40 / 60,
    });
  });

  it("adds up over the devices, largest first, without what does not occur", () => {
    expect(idleByReason(timeline())).toEqual([
      { reason: "memory", ns: 45 },
      { reason: "fill", ns: 25 },
      { reason: "drain", ns: 10 },
    ]);
    const shares = deviceShares(timeline());
    expect(shares.map((share) => share.idleNs)).toEqual([20, 60]);
    // What is shown of a device adds up to the makespan.
    const sums = shares.map((share) => share.computeNs + share.epilogueNs + share.idleNs);
    expect(sums).toEqual([100, 100]);
    expect(shares[0]?.epilogueNs).toBe(6);
  });
});

describe("what a plan lacks", () => {
  it("is nothing where it is complete", () => {
    expect(missingParts(readResult(complete()))).toBeNull();
  });

  it("is told of a kept plan, whose comparison is empty", () => {
    const { problem, schedule } = complete();
    const missing = missingParts(
      readResult({
        problem,
        schedule: { ...schedule, waits: undefined },
        comparison: [],
        certificate: { verified: true },
        provenance: { stopped_by: "cancelled" },
      }),
    );
    expect(missing?.isKept).toBe(true);
    expect(missing?.stoppedBy).toBe("cancelled");
    expect(missing?.parts).toEqual([
      "comparison",
      "waits",
      "memorySafety",
      "robustness",
      "steps",
      "assumptions",
    ]);
  });

  it("has the service's reason where the time was up", () => {
    const document = complete();
    document.robustness = undefined;
    document.provenance.left_out = "no jitter: the time was up";
    expect(missingParts(readResult(document))).toMatchObject({
      parts: ["robustness"],
      reason: "no jitter: the time was up",
      isKept: false,
    });
  });
});

describe("steps of the solve", () => {
  it("tells what each brought to the best of all", () => {
    const rows = stepRows({
      ablation: [
        { step: "classic schedules", began_s: 0, best_ns: 120 },
        { step: "AdaOffload", began_s: 1, best_ns: 120 },
        { step: "local search", began_s: 2, best_ns: 100 },
      ],
    });
    expect(rows.map((step) => step.gainNs)).toEqual([null, 0, 20]);
  });

  it("finds the answer with the last improvement", () => {
    const step = { found_by: "1F1B", placement: "one_chunk", objective_ns: 1 };
    expect(
      foundAt({
        steps: [
          { ...step, seconds: 1 },
          { ...step, seconds: 4 },
        ],
      }),
    ).toBe(4);
    expect(foundAt({})).toBeNull();
  });
});

function row(name: string, makespanNs: number | null, fits: boolean): ComparisonRow {
  return {
    name,
    placement: "one_chunk",
    hypothetical: false,
    makespan_ns: makespanNs,
    steady_span_ns: makespanNs === null ? null : makespanNs - 2,
    bubble_ratio: makespanNs === null ? null : 0.25,
    peak_memory_bytes: makespanNs === null ? null : [10, 20],
    offloads: makespanNs === null ? null : 0,
    fits,
    reason: fits ? null : "out of memory",
  };
}

function complete(): ResultDocument {
  const op = (kind: string, stage: number, start_ns: number, end_ns: number) => ({
    op: kind,
    stage,
    micro_batch: 0,
    start_ns,
    end_ns,
  });
  return {
    problem: {
      micro_batches: 1,
      devices: [
        { activation_memory_bytes: 1000 },
        { activation_memory_bytes: 100 },
        { activation_memory_bytes: null },
      ],
      stages: [{ device: 0 }, { device: 1 }],
    },
    schedule: {
      ops: [op("F", 0, 0, 30), op("F", 1, 30, 70), op("B", 0, 70, 100), op("O", 0, 30, 60)],
      makespan_ns: 100,
      steady_span_ns: 95,
      peak_memory_bytes: [500, 90, 0],
      waits: [],
    },
    comparison: [GPIPE, ONE_F_ONE_B, MISSED],
    certificate: {
      verified: true,
      proven_optimal: false,
      objective: "makespan",
      value_ns: 100,
      lower_bound_ns: 80,
      gap: 0.2,
      memory_safe_under_jitter: true,
      bounds: [
        { name: "tail", value_ns: 70 },
        { name: "memory-time", value_ns: 0 },
        { name: "recycling", value_ns: 80 },
      ],
    },
    robustness: { jitter: 0.1, samples: 200, p50_ns: 101, p95_ns: 104, max_ns: 106 },
    provenance: {
      placement: "one_chunk",
      stopped_by: "time limit",
      ablation: [],
      assumptions: [],
    },
  };
}

function timeline(): Timeline {
  const idle = (given: Partial<Record<IdleReason, number>>): Record<IdleReason, number> => ({
    fill: 0,
    dependency: 0,
    memory: 0,
    link: 0,
    slack: 0,
    drain: 0,
    ...given,
  });
  const device = (number: number, busy_ns: number, idle_ns: Record<IdleReason, number>) => ({
    device: number,
    busy_ns,
    epilogue_ns: 6,
    idle_ns,
  });
  return {
    makespan_ns: 100,
    devices: [
      device(0, 80, idle({ fill: 5, memory: 5, drain: 10 })),
      device(1, 40, idle({ fill: 20, memory: 40 })),
    ],
  } as unknown as Timeline;
}
