/** The bars of the comparison: the makespan of each schedule, split in useful time and bubble. */

import type { EChartsCoreOption } from "echarts/core";
import { duration, percent } from "../../format";
import type { Messages } from "../../i18n";
import type { ChartColours } from "../../palette";
import { barFrame, hatched } from "./bar-option";
import type { Contender } from "./comparison";
import { tooltipContent, tooltipOption } from "./tooltip";

type Texts = Messages["pipeline"]["comparison"];

/** `rows` all have an objective, the shortest first. */
export function comparisonOption(
  rows: readonly Contender[],
  colours: ChartColours,
  t: Texts,
): EChartsCoreOption {
  const names = rows.map((row) => `${row.isOurs ? "▶ " : ""}${contenderTitle(row)}`);
  const frame = barFrame(names, colours);
  // A steady span is not what useful time and bubble add up to.
  const isSplit = rows.every((row) => row.usefulNs !== null && !row.isSteadySpan);
  const series = isSplit
    ? [
        bars(t.useful, colours.series[0], rows, (row) => row.usefulNs, colours),
        bars(t.idle, colours.series[5], rows, (row) => row.bubbleNs, colours, true),
      ]
    : [bars(t.steadySpan, colours.series[0], rows, (row) => row.objectiveNs, colours, true)];
  return {
    ...frame,
    tooltip: tooltipOption(colours, (index) => contenderTooltip(rows[index], t)),
    series,
  };
}

export function contenderTitle(row: Contender): string {
  return row.placement ? `${row.name} (${row.placement})` : row.name;
}

function bars(
  name: string,
  colour: string | undefined,
  rows: readonly Contender[],
  value: (row: Contender) => number | null,
  colours: ChartColours,
  isLast = false,
) {
  return {
    name,
    type: "bar",
    stack: "time",
    barMaxWidth: 16,
    itemStyle: { color: colour },
    data: rows.map((row) => ({
      value: (value(row) ?? 0) / 1e6,
      itemStyle: {
        color: colour,
        opacity: row.isOurs ? 1 : row.fits ? 0.6 : 0.45,
        ...(row.fits ? {} : { decal: hatched(colours) }),
      },
      label: {
        show: isLast,
        position: "right",
        color: colours.text,
        opacity: 1,
        formatter: duration(row.objectiveNs ?? 0),
      },
    })),
  };
}

function contenderTooltip(row: Contender | undefined, t: Texts): HTMLElement {
  if (!row) {
    return tooltipContent("", []);
  }
  const lines = [duration(row.objectiveNs ?? 0)];
  if (row.bubbleRatio !== null) {
    lines.push(`${t.bubble}: ${percent(row.bubbleRatio, 1)}`);
  }
  if (!row.fits) {
    lines.push(row.reason ?? t.oom);
  }
  return tooltipContent(contenderTitle(row), lines);
}
