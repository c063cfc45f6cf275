/** Horizontal bars, one after another or stacked, with an optional limit. */

import type { EChartsCoreOption } from "echarts/core";
import { type Measure, number, writerOf } from "../format";
import type { ChartColours } from "../palette";
import { linearAxis, markLabel } from "./axes";
import { tooltip, tooltipElement } from "./tooltip";

export interface BarSeries {
  name: string;
  values: readonly (number | null)[];
  colour?: string;
  /** Hatched, to tell it apart from another series of the same colour. */
  isHatched?: boolean;
}

export interface Bars {
  categories: readonly string[];
  series: readonly BarSeries[];
  /** What the values are; others than these are written by `format`. */
  measure?: Measure;
  format?: (value: number) => string;
  limit?: { value: number; name: string } | null;
  /** Categories that are drawn in another colour, as what the rest is compared with. */
  marked?: readonly number[];
  labelWidth?: number;
}

const ROW_HEIGHT = 24;
const SPARE_HEIGHT = 84;

export function barsHeight(bars: Bars): number {
  return bars.categories.length * ROW_HEIGHT + SPARE_HEIGHT;
}

export function barsOption(bars: Bars, colours: ChartColours): EChartsCoreOption {
  const isStacked = bars.series.length > 1;
  const most = Math.max(mostOf(bars), bars.limit?.value ?? 0);
  const write = bars.measure ? writerOf(bars.measure, [most]) : (bars.format ?? plain);
  const line = { lineStyle: { color: colours.grid } };
  const ends = isStacked ? null : endLabels(write, colours);
  return {
    grid: {
      left: 8,
      right: isStacked ? 28 : 84,
      top: isStacked ? 50 : 20,
      bottom: 8,
      containLabel: true,
    },
    legend: isStacked
      ? { type: "scroll", top: 0, left: 0, textStyle: { color: colours.text } }
      : { show: false },
    tooltip: tooltip(colours, (point: { name: string; seriesName: string; value: number | null }) =>
      tooltipElement(point.name, [
        [point.seriesName, point.value === null ? "–" : write(point.value)],
      ]),
    ),
    xAxis: {
      ...(bars.measure ? linearAxis(bars.measure, most, colours) : plainAxis(most, write, colours)),
      splitLine: line,
    },
    yAxis: {
      type: "category",
      inverse: true,
      data: [...bars.categories],
      axisLine: line,
      axisTick: { show: false },
      axisLabel: {
        color: colours.text,
        width: bars.labelWidth ?? 130,
        overflow: "truncate",
        interval: 0,
      },
    },
    series: bars.series.map((one, number) => ({
      type: "bar",
      name: one.name,
      ...(isStacked ? { stack: "all" } : {}),
      barMaxWidth: 16,
      data: one.values.map((value, index) => ({
        value,
        ...(bars.marked?.includes(index) ? { itemStyle: { color: colours.series[2] } } : {}),
      })),
      // A fine line of the page's colour tells neighbours apart without their colours.
      itemStyle: {
        ...(one.colour ? { color: one.colour } : {}),
        ...(isStacked ? { borderColor: colours.surface, borderWidth: 1 } : {}),
        ...(one.isHatched ? { decal: hatching(colours) } : {}),
      },
      ...ends,
      ...(number === 0 && bars.limit ? { markLine: limitLine(bars, colours) } : {}),
    })),
  };
}

function endLabels(write: (value: number) => string, colours: ChartColours) {
  return {
    label: {
      show: true,
      position: "right",
      color: colours.faintText,
      formatter: (point: { value: number | null }) =>
        point.value === null ? "–" : write(point.value),
    },
  };
}

function plainAxis(most: number, format: (value: number) => string, colours: ChartColours) {
  return {
    type: "value" as const,
    min: 0,
    ...(most > 0 ? {} : { max: 1 }),
    splitNumber: 4,
    axisLabel: markLabel(format, colours),
  };
}

function limitLine(bars: Bars, colours: ChartColours) {
  return {
    symbol: "none",
    silent: true,
    lineStyle: { color: colours.limit, type: "dashed", width: 2 },
    label: {
      formatter: bars.limit?.name ?? "",
      color: colours.limit,
      position: "start",
      distance: 3,
    },
    data: [{ xAxis: bars.limit?.value }],
  };
}

function hatching(colours: ChartColours) {
  return {
    symbol: "rect",
    color: colours.surface,
    dashArrayX: [1, 0],
    dashArrayY: [2, 4],
    rotation: Math.PI / 4,
  };
}

function mostOf(bars: Bars): number {
  const sums = bars.categories.map((_, index) =>
    bars.series.reduce((sum, one) => sum + (one.values[index] ?? 0), 0),
  );
  return Math.max(0, ...sums);
}

function plain(value: number): string {
  return number(value);
}
