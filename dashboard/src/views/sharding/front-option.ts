import type { EChartsCoreOption } from "echarts/core";
import { axisWriter, linearAxis, logAxis, zeroPlace } from "../../charts/axes";
import { stepLine } from "../../charts/pareto";
import { tooltip, tooltipElement } from "../../charts/tooltip";
import type { ChartColours } from "../../palette";
import { type Dot, type FrontSeries, frontLine } from "./front-data";

export interface FrontTexts {
  redundant: string;
  sent: string;
  /** The line through the points of the front, or through the plans of all weights. */
  line: string;
  weightsLine: string;
  series: Record<FrontSeries, string>;
}

interface Look {
  symbol: string;
  size: number;
  colour: string;
  isHollow?: boolean;
  z: number;
}

const STAR =
  "path://M0,-10 L2.9,-3.1 L10,-3.1 L4.3,1.7 L6.2,9 L0,4.8 L-6.2,9 L-4.3,1.7 L-10,-3.1 L-2.9,-3.1 z";

const ORDER: readonly FrontSeries[] = [
  "fits",
  "exceeds",
  "unknown",
  "baselines",
  "sweep",
  "chosen",
];

/** All points, and the front as a line of steps. */
export function frontOption(
  dots: Record<FrontSeries, readonly Dot[]>,
  selected: Dot | null,
  isLogarithmic: boolean,
  t: FrontTexts,
  colours: ChartColours,
): EChartsCoreOption {
  const all = ORDER.flatMap((name) => [...dots[name]]);
  const redundant = all.map((dot) => dot.redundant);
  const sent = all.map((dot) => dot.sent);
  const places = [zeroPlace(redundant), zeroPlace(sent)] as const;
  const placed = (dot: Dot) => [
    isLogarithmic ? dot.redundant || places[0] : dot.redundant,
    isLogarithmic ? dot.sent || places[1] : dot.sent,
  ];
  const looks = looksOf(colours);
  const write = [axisWriter("bytes", redundant), axisWriter("bytes", sent)] as const;
  const line = frontLine(dots);
  const isOfPoints = line.some((dot) => dot.point !== null);
  const shown = ORDER.filter((name) => dots[name].length > 0);
  return {
    grid: { left: 32, right: 24, top: 40, bottom: 40, containLabel: true },
    legend: { type: "scroll", top: 0, left: 0, textStyle: { color: colours.text } },
    tooltip: tooltip(colours, (mark: { seriesName: string; data: { dot: Dot } }) =>
      tooltipElement(mark.data.dot.name || mark.seriesName, [
        [t.redundant, write[0](mark.data.dot.redundant)],
        [t.sent, write[1](mark.data.dot.sent)],
      ]),
    ),
    xAxis: axis(t.redundant, 30, redundant, isLogarithmic, colours),
    yAxis: axis(t.sent, 64, sent, isLogarithmic, colours),
    series: [
      ...(line.length > 1
        ? [stepLine(isOfPoints ? t.line : t.weightsLine, colours.accent, line.map(placed))]
        : []),
      ...shown.map((name) => ({
        type: "scatter",
        name: t.series[name],
        symbol: looks[name].symbol,
        symbolSize: looks[name].size,
        z: looks[name].z,
        itemStyle: looks[name].isHollow
          ? { color: colours.surface, borderColor: looks[name].colour, borderWidth: 2 }
          : { color: looks[name].colour, borderColor: colours.surface, borderWidth: 0.5 },
        data: dots[name].map((dot) => ({ value: placed(dot), dot })),
      })),
      {
        type: "scatter",
        symbol: "circle",
        symbolSize: 18,
        z: 9,
        silent: true,
        itemStyle: { color: "transparent", borderColor: colours.accent, borderWidth: 3 },
        data: selected ? [placed(selected)] : [],
      },
    ],
  };
}

function looksOf(colours: ChartColours): Record<FrontSeries, Look> {
  const [blue = "", orange = "", green = "", pink = ""] = colours.series;
  return {
    fits: { symbol: "circle", size: 6, colour: blue, z: 2 },
    exceeds: { symbol: "rect", size: 6, colour: colours.limit, isHollow: true, z: 2 },
    unknown: { symbol: "circle", size: 6, colour: colours.faintText, isHollow: true, z: 2 },
    baselines: { symbol: "diamond", size: 13, colour: orange, z: 4 },
    sweep: { symbol: "triangle", size: 12, colour: pink, z: 5 },
    chosen: { symbol: STAR, size: 20, colour: green, z: 6 },
  };
}

function axis(
  name: string,
  nameGap: number,
  values: readonly number[],
  isLogarithmic: boolean,
  colours: ChartColours,
) {
  const common = {
    name,
    nameLocation: "middle",
    nameGap,
    nameTextStyle: { color: colours.faintText },
    splitLine: { lineStyle: { color: colours.grid } },
  };
  return {
    ...common,
    ...(isLogarithmic
      ? logAxis("bytes", values, zeroPlace(values), colours)
      : linearAxis("bytes", Math.max(1, ...values), colours)),
  };
}
