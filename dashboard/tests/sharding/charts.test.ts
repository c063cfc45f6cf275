// @vitest-environment happy-dom
import { beforeAll, describe, expect, it } from "vitest";
import { isWide, logMarks, markText, roundInterval, zeroPlace } from "../../src/charts/axes";
import { barsOption } from "../../src/charts/bars";
import { tooltipElement } from "../../src/charts/tooltip";
import { scaleOf } from "../../src/format";
import { setLanguage } from "../../src/i18n";
import { chartColours } from "../../src/palette";
import { baselineRows } from "../../src/views/sharding/baseline-rows";
import {
  differences,
  frontDots,
  frontLine,
  orderedFront,
} from "../../src/views/sharding/front-data";
import { frontOption } from "../../src/views/sharding/front-option";
import type { Planned } from "../../src/views/sharding/model";
import { stepTo } from "../../src/views/sharding/operator-list";
import { largest } from "../../src/views/sharding/operators";
import type { FrontPoint } from "../../src/views/sharding/types";

beforeAll(() => setLanguage("en"));

const GIB = 1024 ** 3;

function point(redundant: number, sent: number, fits: boolean | null = true): FrontPoint {
  return {
    redundant_bytes: redundant,
    communication_bytes: sent,
    memory_bytes: 1,
    predicted_peak_bytes: 1,
    fits,
    choice: [0],
    proven: true,
  };
}

const NAMES = { fits: "", exceeds: "", unknown: "", chosen: "", sweep: "", baselines: "" };

const PART: Planned = {
  instance: { operators: [], edges: [], alpha: 1, device_memory_bytes: null },
  plan: {
    choice: [],
    objective: 3,
    memory_bytes: 1,
    status: "optimal",
    lower_bound: 3,
    redundant_bytes: 1,
    communication_bytes: 2,
    resharding_bytes: 4,
  },
  baselines: [
    { name: "all", applicable: true, reason: null, redundant_bytes: 0, communication_bytes: 9 },
    { name: "none", applicable: false, reason: "the heads are odd" },
  ],
  sweep: [
    {
      alpha: 1,
      status: "optimal",
      proven: true,
      gap: 0,
      redundant_bytes: 1,
      communication_bytes: 6,
    },
    {
      alpha: 9,
      status: "optimal",
      proven: true,
      gap: 0,
      redundant_bytes: 5,
      communication_bytes: 1,
    },
    { alpha: 10, status: "no_plan", proven: null, gap: null },
  ],
};

describe("axes", () => {
  it("have marks at round numbers of one unit, that of the largest value", () => {
    expect(roundInterval("bytes", 75 * GIB)).toBe(20 * GIB);
    expect(roundInterval("bytes", 1.5 * 1024 * GIB)).toBe(512 * GIB);
    expect(roundInterval("time", 613e6)).toBe(200e6);
    const scale = scaleOf("bytes", [1.5 * 1024 * GIB]);
    expect(markText(512 * GIB, scale)).toBe("0.5 TiB");
    expect(markText(20 * GIB, scaleOf("bytes", [75 * GIB]))).toBe("20 GiB");
  });

  it("have marks on a logarithmic axis however narrow it is", () => {
    expect(logMarks("bytes", 28, 2 ** 40).length).toBeGreaterThan(3);
    expect(logMarks("bytes", 60 * GIB, 80 * GIB).length).toBeGreaterThan(2);
    expect(logMarks("time", 4e9, 30e9).length).toBeGreaterThan(2);
  });
});

describe("the front", () => {
  it("is stepped through by redundancy", () => {
    const points = orderedFront([point(9, 1), point(2, 5)]);
    expect(points.map((one) => one.redundant_bytes)).toEqual([2, 9]);
  });

  it("counts resharding as sent, and has the other weights and baselines with figures", () => {
    const points = [point(2, 5), point(3, 4, false), point(4, 3, null)];
    const dots = frontDots(PART, points, "this plan");
    expect(dots.chosen).toMatchObject([{ redundant: 1, sent: 6 }]);
    expect(dots.sweep).toMatchObject([{ redundant: 5, sent: 1, name: "α = 9" }]);
    expect(dots.baselines.map((dot) => dot.name)).toEqual(["all"]);
    expect([dots.fits, dots.exceeds, dots.unknown].map((own) => own.length)).toEqual([1, 1, 1]);
  });

  it("is logarithmic where values are far apart, with zeros at the edge", () => {
    expect(isWide([0, 28, 3e11])).toBe(true);
    expect(isWide([25, 72])).toBe(false);
    expect(isWide([0, 5])).toBe(false);
    expect(zeroPlace([0, 28, 100])).toBe(14);
    expect(zeroPlace([28, 100])).toBe(28);
    const dots = frontDots(PART, [point(0, 5)], "this plan");
    const t = {
      redundant: "r",
      sent: "s",
      line: "front",
      weightsLine: "weights",
      series: {
        fits: "f",
        exceeds: "e",
        unknown: "u",
        chosen: "c",
        sweep: "w",
        baselines: "b",
      },
    };
    const option = frontOption(dots, null, true, t, chartColours(false));
    const [xAxis, yAxis] = [option.xAxis, option.yAxis] as { type: string }[];
    expect([xAxis?.type, yAxis?.type]).toEqual(["log", "log"]);
    const series = option.series as { name?: string; data: { value: number[] }[] }[];
    expect(series.find((one) => one.name === "f")?.data[0]?.value).toEqual([0.5, 5]);
  });

  it("leads as steps through what no other point beats, or through the plans of all weights", () => {
    const points = [point(2, 5), point(3, 6), point(4, 3, false)];
    const sent = (own: readonly FrontPoint[]) =>
      frontLine(frontDots(PART, own, "this plan")).map((dot) => dot.sent);
    expect(sent(points)).toEqual([5, 3]);
    expect(sent([])).toEqual([6, 1]);
    const texts = { redundant: "", sent: "", line: "front", weightsLine: "weights", series: NAMES };
    const colours = chartColours(false);
    const lines = (own: readonly FrontPoint[]) => {
      const dots = frontDots(PART, own, "this plan");
      const { series } = frontOption(dots, null, false, texts, colours);
      return (series as { type: string; name: string; step?: string }[])
        .filter((one) => one.type === "line")
        .map((one) => [one.name, one.step]);
    };
    expect(lines(points)).toEqual([["front", "end"]]);
    expect(lines([])).toEqual([["weights", "end"]]);
  });

  it("knows what two plans split differently", () => {
    expect(differences([1, 2, 3], [1, 0, 3])).toEqual([1]);
  });
});

describe("baselineRows", () => {
  it("begins with the plan and says why one does not apply", () => {
    const rows = baselineRows(PART, "This plan");
    expect(rows.map((row) => row.name)).toEqual(["This plan", "all", "none"]);
    expect(rows[0]).toMatchObject({ isPlan: true, sentBytes: 6 });
    expect(rows[2]).toMatchObject({
      isApplicable: false,
      note: "the heads are odd",
      sentBytes: null,
    });
  });
});

describe("bars", () => {
  it("stack several series and draw the limit once", () => {
    const option = barsOption(
      {
        categories: ["rank 0"],
        series: [
          { name: "a", values: [1] },
          { name: "b", values: [2] },
        ],
        measure: "bytes",
        limit: { value: 9, name: "limit" },
      },
      chartColours(true),
    );
    const series = option.series as { stack?: string; markLine?: unknown }[];
    expect(series.map((one) => one.stack)).toEqual(["all", "all"]);
    expect(series.filter((one) => one.markLine)).toHaveLength(1);
  });
});

describe("largest", () => {
  it("keeps the order of the computation", () => {
    const row = (index: number, memoryBytes: number) => ({
      index,
      name: String(index),
      kind: null,
      layers: 1,
      strategy: "",
      split: null,
      redundantBytes: 0,
      communicationBytes: 0,
      memoryBytes,
      reshardingBytes: 0,
    });
    const kept = largest([row(0, 5), row(1, 1), row(2, 9)], 2);
    expect(kept.map((one) => one.index)).toEqual([0, 2]);
  });
});

describe("stepTo", () => {
  it("stays within the list", () => {
    expect(stepTo("ArrowDown", -1, 3)).toBe(0);
    expect(stepTo("ArrowDown", 2, 3)).toBe(2);
    expect(stepTo("ArrowUp", 0, 3)).toBe(0);
    expect(stepTo("End", 0, 3)).toBe(2);
    expect(stepTo("a", 0, 3)).toBe(-1);
  });
});

describe("tooltipElement", () => {
  it("shows names as text, whatever they hold", () => {
    const element = tooltipElement("<img src=x onerror=alert(1)>", [["<b>", "1"]]);
    expect(element.querySelector("img, b")).toBeNull();
    expect(element.textContent).toContain("<img src=x");
  });
});
