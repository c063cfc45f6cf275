/** How best plan and bound came together during the solve. */

import type { EChartsCoreOption } from "echarts/core";
import { markText } from "../../charts/axes";
import { rowTooltip, tooltipElement } from "../../charts/tooltip";
import { number, scaleOf, written } from "../../format";
import type { Messages } from "../../i18n";
import type { ChartColours } from "../../palette";
import type { GapPoint } from "./types";

/** `untilS`: when the solve ended; the last values hold until then. */
export function gapOption(
  points: readonly GapPoint[],
  untilS: number,
  colours: ChartColours,
  t: Messages["pipeline"]["found"],
): EChartsCoreOption {
  const last = points[points.length - 1];
  const all = last && last.seconds < untilS ? [...points, { ...last, seconds: untilS }] : points;
  const scale = scaleOf(
    "time",
    all.flatMap((point) => [point.best_ns, point.lower_bound_ns]),
  );
  const write = (ns: number) => written(ns, scale);
  const axis = {
    axisLabel: { color: colours.faintText, hideOverlap: true },
    splitLine: { lineStyle: { color: colours.grid } },
  };
  return {
    grid: { left: 8, right: 24, top: 36, bottom: 28, containLabel: true },
    legend: { top: 0, left: 0, textStyle: { color: colours.text } },
    xAxis: {
      ...axis,
      type: "value",
      min: 0,
      max: untilS,
      axisLabel: { ...axis.axisLabel, showMaxLabel: false },
      name: t.seconds,
      nameLocation: "middle",
      nameGap: 26,
      nameTextStyle: { color: colours.faintText },
    },
    yAxis: {
      ...axis,
      type: "value",
      scale: true,
      axisLabel: { ...axis.axisLabel, formatter: (ns: number) => markText(ns, scale) },
    },
    tooltip: {
      ...rowTooltip(colours, (index) => tooltip(all[index], write, t)),
      axisPointer: { type: "line" },
    },
    series: [
      line(t.best, colours.series[0], "solid", "circle", all, (point) => point.best_ns),
      line(t.bound, colours.series[1], "dashed", "rect", all, (point) => point.lower_bound_ns),
    ],
  };
}

function line(
  name: string,
  colour: string | undefined,
  type: "solid" | "dashed",
  symbol: string,
  points: readonly GapPoint[],
  value: (point: GapPoint) => number | null,
) {
  return {
    name,
    type: "line",
    step: "end",
    symbol,
    symbolSize: 5,
    lineStyle: { type, width: 2 },
    itemStyle: { color: colour },
    data: points.map((point) => [point.seconds, value(point)]),
  };
}

function tooltip(
  point: GapPoint | undefined,
  write: (ns: number) => string,
  t: Messages["pipeline"]["found"],
): HTMLElement {
  const time = (ns: number | null | undefined) =>
    ns === null || ns === undefined ? "–" : write(ns);
  return tooltipElement(`${number(point?.seconds ?? 0, 2)} s`, [
    `${t.best}: ${time(point?.best_ns)}`,
    `${t.bound}: ${time(point?.lower_bound_ns)}`,
  ]);
}
