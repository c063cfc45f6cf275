import type { EChartsCoreOption } from "echarts/core";
import { bytes } from "../../format";
import type { ChartColours } from "../../palette";
import { bytesAxis, markLabel, roundBytes } from "./bytes-axis";
import { type Dot, type FrontSeries, zeroPlace } from "./front-data";
import { tooltip, tooltipElement } from "./tooltip";

export interface FrontTexts {
  redundant: string;
  sent: string;
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

/** A scatter of all points; `logarithmic` says for redundancy and for bytes sent. */
export function frontOption(
  dots: Record<FrontSeries, readonly Dot[]>,
  selected: Dot | null,
  logarithmic: readonly [boolean, boolean],
  t: FrontTexts,
  colours: ChartColours,
): EChartsCoreOption {
  const all = ORDER.flatMap((name) => [...dots[name]]);
  const redundant = all.map((dot) => dot.redundant);
  const sent = all.map((dot) => dot.sent);
  const places = [zeroPlace(redundant), zeroPlace(sent)] as const;
  const placed = (dot: Dot) => [
    logarithmic[0] ? dot.redundant || places[0] : dot.redundant,
    logarithmic[1] ? dot.sent || places[1] : dot.sent,
  ];
  const looks = looksOf(colours);
  const shown = ORDER.filter((name) => dots[name].length > 0);
  return {
    grid: { left: 32, right: 24, top: 40, bottom: 40, containLabel: true },
    legend: { type: "scroll", top: 0, left: 0, textStyle: { color: colours.text } },
    tooltip: tooltip((mark: { seriesName: string; data: { dot: Dot } }) =>
      tooltipElement(mark.data.dot.name || mark.seriesName, [
        [t.redundant, bytes(mark.data.dot.redundant)],
        [t.sent, bytes(mark.data.dot.sent)],
      ]),
    ),
    xAxis: axis(t.redundant, 30, redundant, logarithmic[0], colours),
    yAxis: axis(t.sent, 64, sent, logarithmic[1], colours),
    series: [
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
  const linear = bytesAxis(Math.max(1, ...values), colours);
  return isLogarithmic
    ? {
        ...common,
        type: "log" as const,
        logBase: 2,
        min: zeroPlace(values),
        axisLabel: markLabel(roundBytes, colours),
      }
    : { ...common, ...linear };
}
