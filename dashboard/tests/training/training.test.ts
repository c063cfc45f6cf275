import { describe, expect, it } from "vitest";
import { ranges, runsText } from "../../src/number-runs";
import { chartColours } from "../../src/palette";
import {
  type Candidate,
  candidatesOf,
  configurationText,
  stepped,
} from "../../src/views/training/candidates-data";
import { draftOf } from "../../src/views/training/draft";
import { droppedRules } from "../../src/views/training/dropped-rules";
import { memoryPart, stepPart, usedMemoryParts } from "../../src/views/training/parts";
import { frontLines, scatterOption, seriesOf } from "../../src/views/training/scatter-option";
import type { Figures, RankMemory, TrainedPlan } from "../../src/views/training/types";

function figures(changes: Partial<Figures> = {}): Figures {
  return {
    devices: 64,
    tensor_parallel: 2,
    pipeline_parallel: 4,
    data_parallel: 8,
    context_parallel: 1,
    expert_parallel: 1,
    micro_batch_size: 1,
    interleaving: 1,
    zero_stage: 1,
    recomputation: "none",
    offload: false,
    step_time_ns: 5e9,
    samples_per_s: 1,
    tokens_per_s: 1,
    mfu: 0.5,
    peak_bytes: 60,
    limit_bytes: 80,
    headroom_bytes: 20,
    training: {},
    ...changes,
  };
}

function plan(rank: number, changes: Partial<TrainedPlan> = {}): TrainedPlan {
  return { ...figures(), rank, micro_batches: 8, fits: true, ...changes };
}

function candidate(changes: Partial<Figures>, isPareto: boolean): Candidate {
  const own = figures(changes);
  return {
    key: JSON.stringify(changes),
    figures: own,
    plan: null,
    isBest: false,
    isPareto,
    fits: true,
  };
}

const RESULT = {
  plans: [plan(1), plan(2, { data_parallel: 16, step_time_ns: 6e9 })],
  best: { rank: 2, step_time_ns: 6e9, training: {} },
  pareto: [figures(), figures({ devices: 32, step_time_ns: 9e9 })],
};

describe("candidatesOf", () => {
  const candidates = candidatesOf(RESULT);

  it("lists a plan that is on the front once", () => {
    expect(candidates.map((one) => one.plan?.rank ?? null)).toEqual([1, 2, null]);
    expect(candidates.map((one) => one.isPareto)).toEqual([true, false, true]);
  });

  it("marks the best one, which need not be the first", () => {
    expect(candidates.map((one) => one.isBest)).toEqual([false, true, false]);
    expect(candidates.map(seriesOf)).toEqual(["plans", "best", "pareto"]);
  });

  it("copes with a result without plans", () => {
    expect(candidatesOf({})).toEqual([]);
  });

  it("steps by step time and stays within the list", () => {
    const [first, second, third] = candidates.map((one) => one.key);
    expect(stepped(candidates, null, 1)).toBe(first);
    expect(stepped(candidates, first ?? null, 1)).toBe(second);
    expect(stepped(candidates, third ?? null, 1)).toBe(third);
    expect(stepped([], null, 1)).toBeNull();
  });

  const front = (all: readonly (typeof candidates)[number][]) =>
    frontLines(all).map(({ gpus, points }) => [
      gpus,
      points.map((one) => one.figures.step_time_ns),
    ]);

  it("draws a front for each number of GPUs: that of the answer, else of the plans listed", () => {
    const faster = candidate({ devices: 32, step_time_ns: 8e9, peak_bytes: 70 }, true);
    const slower = candidate({ devices: 32, step_time_ns: 9e9, peak_bytes: 50 }, true);
    const beaten = candidate({ devices: 32, step_time_ns: 9.5e9, peak_bytes: 60 }, true);
    const other = candidate({ devices: 32, step_time_ns: 1e9, peak_bytes: 10 }, false);
    expect(front([slower, beaten, other, faster])).toEqual([[32, [8e9, 9e9]]]);
    const listed = [faster, slower, beaten].map((one) => ({ ...one, isPareto: false }));
    expect(front(listed)).toEqual([[32, [8e9, 9e9]]]);
    expect(front([faster])).toEqual([]);
  });

  it("names the front in the legend, marks the limit, and has both axes alike", () => {
    const points = [
      candidate({ step_time_ns: 8e9, peak_bytes: 70 }, true),
      candidate({ step_time_ns: 9e9, peak_bytes: 50 }, true),
    ];
    const t = {
      step: "t",
      peak: "m",
      gpus: "g",
      plan: "p",
      limit: "limit",
      front: "front",
      listedFront: "listed",
      onGpus: String,
      series: { best: "b", plans: "p", pareto: "f", exceeds: "e" },
    };
    for (const isLogarithmic of [true, false]) {
      const option = scatterOption(points, null, isLogarithmic, t, chartColours(false));
      const series = option.series as {
        type: string;
        name?: string;
        step?: string;
        markLine?: { data: { yAxis: number }[] };
      }[];
      const lines = series.filter((one) => one.type === "line");
      expect(lines.map((one) => [one.name, one.step])).toEqual([["front", "end"]]);
      expect(series.flatMap((one) => one.markLine?.data ?? [])).toEqual([{ yAxis: 80 }]);
      const types = [option.xAxis, option.yAxis].map((axis) => (axis as { type: string }).type);
      expect(types).toEqual(isLogarithmic ? ["log", "log"] : ["value", "value"]);
    }
  });
});

describe("configurationText", () => {
  it("leaves out degrees of one that are seldom used", () => {
    expect(configurationText(figures())).toBe("TP 2 · PP 4 · DP 8");
    expect(configurationText(figures({ expert_parallel: 8 }))).toBe("TP 2 · PP 4 · DP 8 · EP 8");
  });
});

describe("the parts", () => {
  const rank: RankMemory = {
    rank: 0,
    layers: 8,
    micro_batches_in_flight: 4,
    parameters_bytes: 10,
    gradients_bytes: 20,
    optimizer_bytes: 5,
    activations_bytes: 30,
    offloaded_bytes: 12,
    total_bytes: 53,
    headroom_bytes: 7,
  };

  it("of memory add up to the total, which has nothing that is offloaded", () => {
    const parts = usedMemoryParts([rank]);
    expect(parts).not.toContain("logits_bytes");
    expect(parts.reduce((sum, part) => sum + memoryPart(rank, part), 0)).toBe(rank.total_bytes);
  });

  it("of the step are none where nothing is said", () => {
    const step = { compute_ns: 5, bubble_ns: 1, transfer_ns: 0, epilogue_ns: 2 };
    expect(stepPart(step, "compute_ns")).toBe(5);
    expect(stepPart(step, "offload_wait_ns")).toBe(0);
  });
});

describe("droppedRules", () => {
  it("has the most effective rule first, with its text", () => {
    const searched = {
      enumerated: 9,
      worked_out: 1,
      fits: 1,
      complete: true,
      dropped: { milder: 2, slower: 6 },
      rules: { slower: "its bound is above" },
    };
    expect(droppedRules(searched)).toEqual([
      { rule: "slower", count: 6, why: "its bound is above" },
      { rule: "milder", count: 2, why: "" },
    ]);
  });
});

describe("draftOf", () => {
  it("takes over model and cluster, and nothing else of the request", () => {
    const request = { model: "GPT-3-175B", cluster: { nodes: 2 }, search: { top: 5 } };
    expect(draftOf(request, { tensor_parallel: 8 })).toEqual({
      kind: "pipeline",
      body: { model: "GPT-3-175B", cluster: { nodes: 2 }, training: { tensor_parallel: 8 } },
    });
    expect(draftOf({}, {})).toBeNull();
  });
});

describe("lists in short", () => {
  it("have ranges and repetitions", () => {
    expect(ranges([0, 1, 2, 5, 7, 8])).toBe("0–2, 5, 7–8");
    expect(runsText([2, 2, 2, 1])).toBe("2 ×3, 1");
    expect(ranges([])).toBe("");
  });
});
