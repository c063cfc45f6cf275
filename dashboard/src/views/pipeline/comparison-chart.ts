/** The bars of the comparison: the makespan of each schedule, split in work, epilogue and idle time. */

import type { EChartsCoreOption } from "echarts/core";
import { barFrame, hatched } from "../../charts/time-bars";
import { rowTooltip, tooltipElement } from "../../charts/tooltip";
import { percent, writerOf } from "../../format";
import type { Messages } from "../../i18n";
import { comparisonReason, serviceName } from "../../i18n/service-text";
import { type ChartColours, IDLE_COLOURS } from "../../palette";
import type { Contender, Split } from "./comparison";

type Texts = Messages["pipeline"]["comparison"];

/** `rows` all have an objective, the shortest first. */
export function comparisonOption(
  rows: readonly Contender[],
  colours: ChartColours,
  t: Texts,
): EChartsCoreOption {
  const names = rows.map((row) => `${row.isOurs ? "▶ " : ""}${contenderTitle(row)}`);
  const longestNs = Math.max(0, ...rows.map((row) => row.objectiveNs ?? 0));
  const frame = barFrame(names, longestNs, colours);
  const write = writerOf("time", [longestNs]);
  // A steady span is not what the parts of a makespan add up to.
  const isSplit = rows.every((row) => row.split !== null && !row.isSteadySpan);
  const part = (name: string, colour: string | undefined, share: (split: Split) => number) =>
    bars(
      name,
      colour,
      rows,
      (row) => (row.split ? share(row.split) * row.split.makespanNs : 0),
      colours,
    );
  const series = isSplit
    ? [
        part(t.compute, colours.series[0], (split) => split.compute),
        part(t.epilogue, IDLE_COLOURS.epilogue, (split) => split.epilogue),
        part(t.idle, colours.series[5], (split) => split.idle),
      ]
    : [bars(t.steadySpan, colours.series[0], rows, (row) => row.objectiveNs ?? 0, colours)];
  return {
    ...frame,
    tooltip: rowTooltip(colours, (index) => contenderTooltip(rows[index], write, t)),
    series: [...series, totals(rows, write, colours)],
  };
}

function bars(
  name: string,
  colour: string | undefined,
  rows: readonly Contender[],
  value: (row: Contender) => number,
  colours: ChartColours,
) {
  return {
    name,
    type: "bar",
    stack: "time",
    barMaxWidth: 16,
    itemStyle: { color: colour },
    data: rows.map((row) => ({
      value: value(row),
      itemStyle: {
        color: colour,
        opacity: row.isOurs ? 1 : row.fits ? 0.6 : 0.45,
        ...(row.fits ? {} : { decal: hatched(colours) }),
      },
    })),
  };
}

/** Nothing but the whole figure at the end of each bar. */
function totals(rows: readonly Contender[], write: (ns: number) => string, colours: ChartColours) {
  return {
    type: "bar",
    stack: "time",
    silent: true,
    data: rows.map((row) => ({
      value: 0,
      label: {
        show: true,
        position: "right",
        color: colours.text,
        formatter: write(row.objectiveNs ?? 0),
      },
    })),
  };
}

export function contenderTitle(row: Contender): string {
  return row.placement ? `${row.name} (${serviceName("placement", row.placement)})` : row.name;
}

function contenderTooltip(
  row: Contender | undefined,
  write: (ns: number) => string,
  t: Texts,
): HTMLElement {
  if (!row) {
    return tooltipElement("", []);
  }
  const lines = [write(row.objectiveNs ?? 0)];
  if (row.split) {
    lines.push(
      `${t.compute}: ${percent(row.split.compute, 1)}`,
      `${t.epilogue}: ${percent(row.split.epilogue, 1)}`,
      `${t.idle}: ${percent(row.split.idle, 1)}`,
    );
  }
  if (!row.fits) {
    lines.push(comparisonReason(row) ?? t.oom);
  }
  return tooltipElement(contenderTitle(row), lines);
}
