/** Best plan and bound over the solver's time, from the steps of a solve. */

import type { EChartsCoreOption } from "echarts/core";
import type { ProgressStep } from "../../api/types";
import { duration } from "../../format";
import { type Objective, objectiveOf, objectiveText } from "../../live/objective";

export interface TracePoint {
  seconds: number;
  best: number | null;
  bound: number | null;
}

export interface Trace {
  unit: Objective["unit"];
  points: readonly TracePoint[];
}

export interface TraceTexts {
  bestSeries: string;
  boundSeries: string;
  gapSeries: string;
  axis: string;
}

export interface TraceLook {
  best: string;
  bound: string;
  grid: string;
  faintText: string;
}

/**
 * A point for each step at which the best or the bound changed, and one for `untilS`, up to when
 * the last ones hold. What was known once stays known when a later attempt begins.
 */
export function traceOf(kind: string, steps: readonly ProgressStep[], untilS: number): Trace {
  const points: TracePoint[] = [];
  let unit: Objective["unit"] = "ns";
  for (const step of steps) {
    const reached = objectiveOf(kind, step);
    unit = reached.unit;
    const last = points.at(-1);
    const best = reached.best ?? last?.best ?? null;
    const bound = reached.bound ?? last?.bound ?? null;
    const seconds = Math.max(step.spent_s, last?.seconds ?? 0);
    if ((best !== null || bound !== null) && (best !== last?.best || bound !== last?.bound)) {
      points.push({ seconds, best, bound });
    }
  }
  const last = points.at(-1);
  if (last && untilS > last.seconds) {
    points.push({ ...last, seconds: untilS });
  }
  return { unit, points };
}

export function traceOption(trace: Trace, t: TraceTexts, look: TraceLook): EChartsCoreOption {
  const { points, unit } = trace;
  const line = { type: "line", step: "end", symbol: "none" };
  const hidden = { ...line, lineStyle: { opacity: 0 }, stack: "gap", silent: true };
  const drawn = (value: (point: TracePoint) => number | null) =>
    points.map((point) => [point.seconds, value(point)]);
  return {
    grid: { left: 8, right: 16, top: 36, bottom: 24, outerBoundsMode: "same" },
    legend: { top: 0, data: [t.bestSeries, t.boundSeries], textStyle: { color: look.faintText } },
    tooltip: {
      trigger: "axis",
      renderMode: "richText",
      formatter: (shown: unknown) => tooltipText(shown, points, unit, t),
    },
    xAxis: {
      type: "value",
      name: t.axis,
      nameLocation: "middle",
      nameGap: 26,
      nameTextStyle: { color: look.faintText },
      // The end is just now, and no round number.
      axisLabel: { color: look.faintText, showMaxLabel: false },
      splitLine: { show: false },
      max: points.at(-1)?.seconds || null,
    },
    yAxis: {
      type: "value",
      scale: true,
      axisLabel: {
        color: look.faintText,
        formatter: (value: number) =>
          unit === "ns" ? duration(value) : objectiveText(value, unit),
      },
      splitLine: { lineStyle: { color: look.grid } },
    },
    series: [
      { ...hidden, data: drawn((point) => gapBase(point)) },
      {
        ...hidden,
        areaStyle: { color: look.best, opacity: 0.15 },
        data: drawn((point) => gapSize(point)),
      },
      {
        ...line,
        name: t.bestSeries,
        itemStyle: { color: look.best },
        lineStyle: { color: look.best, width: 2 },
        data: drawn((point) => point.best),
      },
      {
        ...line,
        name: t.boundSeries,
        itemStyle: { color: look.bound },
        lineStyle: { color: look.bound, width: 2, type: "dashed" },
        data: drawn((point) => point.bound),
      },
    ],
  };
}

function gapBase(point: TracePoint): number | null {
  return point.best === null ? null : point.bound;
}

function gapSize(point: TracePoint): number | null {
  return point.best === null || point.bound === null ? null : point.best - point.bound;
}

/** The text at a moment: of the last point up to it. */
function tooltipText(
  shown: unknown,
  points: readonly TracePoint[],
  unit: Objective["unit"],
  t: TraceTexts,
): string {
  const [first] = shown as { dataIndex: number }[];
  const point = points[first?.dataIndex ?? -1];
  if (!point) {
    return "";
  }
  const told = (value: number | null) => (value === null ? "–" : objectiveText(value, unit));
  const gap = gapSize(point);
  return [
    duration(point.seconds * 1e9),
    `${t.bestSeries}: ${told(point.best)}`,
    `${t.boundSeries}: ${told(point.bound)}`,
    `${t.gapSeries}: ${told(gap)}`,
  ].join("\n");
}
