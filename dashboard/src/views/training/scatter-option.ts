import type { EChartsCoreOption } from "echarts/core";
import { bytes, duration, number } from "../../format";
import type { ChartColours } from "../../palette";
import { bytesAxis, markLabel, withoutZeros } from "../sharding/bytes-axis";
import { isWide } from "../sharding/front-data";
import { tooltip, tooltipElement } from "../sharding/tooltip";
import { type Candidate, configurationText } from "./candidates-data";

export type ScatterSeries = "best" | "plans" | "pareto" | "exceeds";

export interface ScatterTexts {
  step: string;
  peak: string;
  gpus: string;
  plan: string;
  limit: string;
  onGpus: (count: string) => string;
  series: Record<ScatterSeries, string>;
}

const ORDER: readonly ScatterSeries[] = ["exceeds", "pareto", "plans", "best"];

export function seriesOf(candidate: Candidate): ScatterSeries {
  if (!candidate.fits) {
    return "exceeds";
  }
  return candidate.isBest ? "best" : candidate.plan ? "plans" : "pareto";
}

/** Step time to the right, memory upwards; the limit is a line. */
export function scatterOption(
  candidates: readonly Candidate[],
  selected: string | null,
  t: ScatterTexts,
  colours: ChartColours,
): EChartsCoreOption {
  const limit = candidates[0]?.figures.limit_bytes ?? null;
  const peaks = candidates.map((one) => one.figures.peak_bytes);
  // In the unit of the marks, which are round numbers of it.
  const unit = timeUnit(candidates);
  const place = (one: Candidate) => [one.figures.step_time_ns / unit, one.figures.peak_bytes];
  const marked = candidates.find((one) => one.key === selected);
  const looks = looksOf(colours);
  const name = { nameLocation: "middle", nameTextStyle: { color: colours.faintText } };
  const lines = { splitLine: { lineStyle: { color: colours.grid } } };
  return {
    grid: { left: 30, right: 64, top: 40, bottom: 34, containLabel: true },
    legend: { type: "scroll", top: 0, left: 0, textStyle: { color: colours.text } },
    tooltip: tooltip((mark: { data: { candidate: Candidate } }) => tip(mark.data.candidate, t)),
    xAxis: { ...timeAxis(candidates, unit, colours), ...name, ...lines, name: t.step, nameGap: 30 },
    yAxis: {
      ...bytesAxis(Math.max(limit ?? 0, ...peaks), colours),
      ...name,
      ...lines,
      name: t.peak,
      nameGap: 60,
    },
    series: [
      ...ORDER.map((series) => ({
        type: "scatter",
        name: t.series[series],
        symbol: looks[series].symbol,
        symbolSize: looks[series].size,
        itemStyle: { color: looks[series].colour, borderColor: colours.surface, borderWidth: 1 },
        data: candidates
          .filter((one) => seriesOf(one) === series)
          .map((candidate) => ({ value: place(candidate), candidate })),
      })).filter((series) => series.data.length > 0),
      ...frontLines(candidates).map(({ gpus, points }) => ({
        type: "line",
        symbol: "none",
        silent: true,
        z: 1,
        lineStyle: { color: colours.faintText, width: 1, type: "dotted" },
        data: points.map(place),
        endLabel: {
          show: true,
          color: colours.faintText,
          distance: 6,
          formatter: t.onGpus(number(gpus)),
        },
      })),
      {
        type: "scatter",
        symbol: "circle",
        symbolSize: 22,
        silent: true,
        itemStyle: { color: "transparent", borderColor: colours.accent, borderWidth: 3 },
        data: marked ? [place(marked)] : [],
        ...(limit === null ? {} : { markLine: limitLine(limit, t.limit, colours) }),
      },
    ],
  };
}

/** The Pareto front of each number of GPUs, where there are several, by step time. */
export function frontLines(candidates: readonly Candidate[]) {
  const byGpus = new Map<number, Candidate[]>();
  for (const candidate of candidates) {
    if (candidate.isPareto) {
      const gpus = candidate.figures.devices;
      byGpus.set(gpus, [...(byGpus.get(gpus) ?? []), candidate]);
    }
  }
  if (byGpus.size < 2) {
    return [];
  }
  return [...byGpus].map(([gpus, points]) => ({
    gpus,
    points: points.sort((a, b) => a.figures.step_time_ns - b.figures.step_time_ns),
  }));
}

function tip(candidate: Candidate, t: ScatterTexts): HTMLElement {
  const { figures, plan } = candidate;
  const title = plan ? `${plan.rank}: ${configurationText(figures)}` : configurationText(figures);
  return tooltipElement(title, [
    [t.step, duration(figures.step_time_ns)],
    [t.peak, bytes(figures.peak_bytes)],
    [t.gpus, number(figures.devices)],
  ]);
}

function timeAxis(candidates: readonly Candidate[], unit: number, colours: ChartColours) {
  const axisLabel = markLabel((value) => withoutZeros(duration(value * unit)), colours);
  return isWide(candidates.map((one) => one.figures.step_time_ns))
    ? { type: "log" as const, logBase: 2, axisLabel }
    : { type: "value" as const, scale: true, axisLabel };
}

/** The largest unit of time that is not longer than all steps, in nanoseconds. */
function timeUnit(candidates: readonly Candidate[]): number {
  const longest = Math.max(0, ...candidates.map((one) => one.figures.step_time_ns));
  return [1e9, 1e6, 1e3].find((unit) => longest >= unit) ?? 1;
}

function limitLine(limit: number, name: string, colours: ChartColours) {
  return {
    symbol: "none",
    silent: true,
    lineStyle: { color: colours.limit, type: "dashed", width: 2 },
    label: { formatter: name, color: colours.limit, position: "insideEndTop" },
    data: [{ yAxis: limit }],
  };
}

function looksOf(colours: ChartColours) {
  const [blue = "", orange = "", green = ""] = colours.series;
  const looks: Record<ScatterSeries, { symbol: string; size: number; colour: string }> = {
    best: { symbol: "diamond", size: 20, colour: green },
    plans: { symbol: "circle", size: 11, colour: blue },
    pareto: { symbol: "triangle", size: 11, colour: orange },
    exceeds: { symbol: "rect", size: 9, colour: colours.limit },
  };
  return looks;
}
