// @vitest-environment happy-dom
import { beforeAll, describe, expect, it } from "vitest";
import { setLanguage } from "../../src/i18n";
import { chartColours } from "../../src/palette";
import { barsOption } from "../../src/views/sharding/bars";
import { baselineRows } from "../../src/views/sharding/baseline-rows";
import { bytesInterval, roundBytes, withoutZeros } from "../../src/views/sharding/bytes-axis";
import {
  differences,
  frontDots,
  isWide,
  orderedFront,
  zeroPlace,
} from "../../src/views/sharding/front-data";
import { frontOption } from "../../src/views/sharding/front-option";
import type { Planned } from "../../src/views/sharding/model";
import { stepTo } from "../../src/views/sharding/operator-list";
import { largest } from "../../src/views/sharding/operators";
import { tooltipElement } from "../../src/views/sharding/tooltip";
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

describe("the axis of bytes", () => {
  it("has marks at round numbers", () => {
    expect(bytesInterval(75 * GIB)).toBe(20 * GIB);
    expect(bytesInterval(900 * 4 * 1024)).toBe(1024 * 1024);
    expect(roundBytes(20 * GIB)).toBe("20 GiB");
    expect(roundBytes(1000)).toBe("1,000 B");
    expect(withoutZeros("12.50 s")).toBe("12.50 s");
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
    const dots = frontDots(PART, [point(0, 5)], "this plan");
    const t = {
      redundant: "r",
      sent: "s",
      series: {
        fits: "f",
        exceeds: "e",
        unknown: "u",
        chosen: "c",
        sweep: "w",
        baselines: "b",
      },
    };
    const option = frontOption(dots, null, [true, false], t, chartColours(false));
    const series = option.series as { name?: string; data: { value: number[] }[] }[];
    expect(series.find((one) => one.name === "f")?.data[0]?.value).toEqual([0.5, 5]);
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
        unit: "bytes",
        format: String,
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
