/** What horizontal bars of times have in common. */

import { scaleOf } from "../format";
import type { ChartColours } from "../palette";
import { markLabel, markText } from "./axes";

export const ROW_HEIGHT = 24;
const FRAME_HEIGHT = 84;

export function barChartHeight(rows: number): number {
  return FRAME_HEIGHT + rows * ROW_HEIGHT;
}

/** Grid and axes of bars of time, the first row on top; the longest chooses the unit. */
export function barFrame(names: readonly string[], longestNs: number, colours: ChartColours) {
  const scale = scaleOf("time", [longestNs]);
  return {
    grid: { left: 8, right: 64, top: 36, bottom: 8, containLabel: true },
    legend: { top: 0, left: 0, textStyle: { color: colours.text }, itemHeight: 10 },
    xAxis: {
      type: "value",
      axisLabel: markLabel((value) => markText(value, scale), colours),
      splitLine: { lineStyle: { color: colours.grid } },
    },
    yAxis: {
      type: "category",
      inverse: true,
      data: [...names],
      axisTick: { show: false },
      axisLine: { lineStyle: { color: colours.grid } },
      axisLabel: { color: colours.text, width: 215, overflow: "truncate", interval: 0 },
    },
  };
}

/** Diagonal stripes over a bar's own colour. */
export function hatched(colours: ChartColours): Record<string, unknown> {
  return {
    symbol: "rect",
    dashArrayX: [1, 0],
    dashArrayY: [2, 4],
    rotation: -Math.PI / 4,
    color: colours.surface,
  };
}
