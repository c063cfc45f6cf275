import type { EChartsCoreOption } from "echarts/core";
import { axisWriter, linearAxis, logAxis, markLabel, markText } from "../../charts/axes";
import { paretoFront, stepLine } from "../../charts/pareto";
import { tooltip, tooltipElement } from "../../charts/tooltip";
import { number, scaleOf } from "../../format";
import type { ChartColours } from "../../palette";
import { type Candidate, configurationText } from "./candidates-data";

export type ScatterSeries = "best" | "plans" | "pareto" | "exceeds";

export interface ScatterTexts {
  step: string;
  peak: string;
  gpus: string;
  plan: string;
  limit: string;
  /** The front as a line, and which of them is on how many GPUs. */
  front: string;
  listedFront: string;
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

/** Step time to the right, memory upwards; the limit is a line, and so is the Pareto front. */
export function scatterOption(
  candidates: readonly Candidate[],
  selected: string | null,
  isLogarithmic: boolean,
  t: ScatterTexts,
  colours: ChartColours,
): EChartsCoreOption {
  const limit = candidates[0]?.figures.limit_bytes ?? null;
  const marked = candidates.find((one) => one.key === selected);
  const looks = looksOf(colours);
  const name = { nameLocation: "middle", nameTextStyle: { color: colours.faintText } };
  const axes = isLogarithmic
    ? logAxes(candidates, limit, colours)
    : linearAxes(candidates, limit, colours);
  const fronts = frontLines(candidates);
  const lineName = candidates.some((one) => one.isPareto) ? t.front : t.listedFront;
  return {
    grid: { left: 30, right: 64, top: 40, bottom: 34, containLabel: true },
    legend: { type: "scroll", top: 0, left: 0, textStyle: { color: colours.text } },
    tooltip: tooltip(colours, tipOf(candidates, t)),
    xAxis: { ...axes.time, ...name, name: t.step, nameGap: 30 },
    yAxis: { ...axes.memory, ...name, name: t.peak, nameGap: 60 },
    series: [
      // All of one name, so that the legend has them once.
      ...fronts.map(({ gpus, points }) => ({
        ...stepLine(lineName, colours.accent, points.map(placeOf)),
        ...(fronts.length > 1 ? { endLabel: gpusLabel(gpus, t, colours) } : {}),
      })),
      ...ORDER.map((series) => ({
        type: "scatter",
        name: t.series[series],
        symbol: looks[series].symbol,
        symbolSize: looks[series].size,
        itemStyle: { color: looks[series].colour, borderColor: colours.surface, borderWidth: 1 },
        data: candidates
          .filter((one) => seriesOf(one) === series)
          .map((candidate) => ({ value: placeOf(candidate), candidate })),
      })).filter((series) => series.data.length > 0),
      {
        type: "scatter",
        symbol: "circle",
        symbolSize: 22,
        silent: true,
        itemStyle: { color: "transparent", borderColor: colours.accent, borderWidth: 3 },
        data: marked ? [placeOf(marked)] : [],
        ...(limit === null ? {} : { markLine: limitLine(limit, t.limit, colours) }),
      },
    ],
  };
}

/** The Pareto front of each number of GPUs by step time: of the answer where it has one, else of
 * the plans that are listed. Only plans that fit are on it. */
export function frontLines(candidates: readonly Candidate[]) {
  const hasFront = candidates.some((one) => one.isPareto);
  const eligible = candidates.filter((one) => one.fits && (one.isPareto || !hasFront));
  const gpus = [...new Set(eligible.map((one) => one.figures.devices))];
  return gpus
    .map((count) => ({
      gpus: count,
      points: paretoFront(
        eligible.filter((one) => one.figures.devices === count),
        placeOf,
      ),
    }))
    .filter((front) => front.points.length > 1);
}

function placeOf({ figures }: Candidate): [number, number] {
  return [figures.step_time_ns, figures.peak_bytes];
}

function gpusLabel(gpus: number, t: ScatterTexts, colours: ChartColours) {
  return {
    show: true,
    color: colours.faintText,
    distance: 6,
    formatter: t.onGpus(number(gpus)),
  };
}

function tipOf(candidates: readonly Candidate[], t: ScatterTexts) {
  const writeTime = axisWriter("time", times(candidates));
  const writeBytes = axisWriter("bytes", peaks(candidates));
  return (mark: { data: { candidate?: Candidate } }): HTMLElement | null => {
    const { candidate } = mark.data;
    if (!candidate) {
      return null;
    }
    const { figures, plan } = candidate;
    const title = plan ? `${plan.rank}: ${configurationText(figures)}` : configurationText(figures);
    return tooltipElement(title, [
      [t.step, writeTime(figures.step_time_ns)],
      [t.peak, writeBytes(figures.peak_bytes)],
      [t.gpus, number(figures.devices)],
    ]);
  };
}

function times(candidates: readonly Candidate[]): number[] {
  return candidates.map((one) => one.figures.step_time_ns);
}

function peaks(candidates: readonly Candidate[]): number[] {
  return candidates.map((one) => one.figures.peak_bytes);
}

function logAxes(candidates: readonly Candidate[], limit: number | null, colours: ChartColours) {
  const [steps, sizes] = [times(candidates), [...peaks(candidates), ...(limit ? [limit] : [])]];
  return {
    time: logAxis("time", steps, Math.min(...steps), colours),
    memory: logAxis("bytes", sizes, Math.min(...sizes), colours),
  };
}

/** Times begin where the fastest plan is, memory at nothing. */
function linearAxes(candidates: readonly Candidate[], limit: number | null, colours: ChartColours) {
  const scale = scaleOf("time", times(candidates));
  const splitLine = { lineStyle: { color: colours.grid } };
  return {
    time: {
      type: "value" as const,
      scale: true,
      splitLine,
      axisLabel: markLabel((value) => markText(value, scale), colours),
    },
    memory: {
      ...linearAxis("bytes", Math.max(limit ?? 0, ...peaks(candidates)), colours),
      splitLine,
    },
  };
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
