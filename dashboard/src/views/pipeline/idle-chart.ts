/** Work, epilogue and idle time of each device as one stacked bar. */

import type { EChartsCoreOption } from "echarts/core";
import type { IdleReason } from "../../api/types";
import { barFrame, hatched } from "../../charts/time-bars";
import { rowTooltip, tooltipElement } from "../../charts/tooltip";
import { percent, writerOf } from "../../format";
import type { Messages } from "../../i18n";
import { type ChartColours, IDLE_COLOURS } from "../../palette";
import { type DeviceShares, IDLE_REASONS } from "./idle";

type Texts = Messages["pipeline"]["idle"];

export function idleOption(
  shares: readonly DeviceShares[],
  makespanNs: number,
  colours: ChartColours,
  t: Texts,
): EChartsCoreOption {
  const names = shares.map((entry) => `${t.device} ${entry.device}`);
  const occurring = IDLE_REASONS.filter((reason) =>
    shares.some((entry) => entry.byReason[reason] > 0),
  );
  return {
    ...barFrame(names, makespanNs, colours),
    tooltip: rowTooltip(colours, (index) => tooltip(shares[index], makespanNs, t)),
    series: [
      series(t.compute, colours.grid, {}, (entry) => entry.computeNs, shares),
      ...(shares.some((entry) => entry.epilogueNs > 0)
        ? [series(t.epilogue, IDLE_COLOURS.epilogue, {}, (entry) => entry.epilogueNs, shares)]
        : []),
      ...occurring.map((reason, index) =>
        series(
          t.reasons[reason],
          IDLE_COLOURS[reason],
          pattern(index, colours),
          (entry) => entry.byReason[reason],
          shares,
        ),
      ),
    ],
  };
}

/** Every other reason is striped, so that neighbours differ by more than colour. */
function pattern(index: number, colours: ChartColours): Record<string, unknown> {
  return index % 2 === 1 ? { decal: { ...hatched(colours), dashArrayY: [1, 4] } } : {};
}

function series(
  name: string,
  colour: string,
  extra: Record<string, unknown>,
  value: (entry: DeviceShares) => number,
  shares: readonly DeviceShares[],
) {
  return {
    name,
    type: "bar",
    stack: "time",
    barMaxWidth: 16,
    itemStyle: { color: colour, ...extra },
    data: shares.map((entry) => value(entry)),
  };
}

function tooltip(entry: DeviceShares | undefined, makespanNs: number, t: Texts): HTMLElement {
  if (!entry) {
    return tooltipElement("", []);
  }
  const write = writerOf("time", [makespanNs]);
  const line = (name: string, ns: number) =>
    `${name}: ${write(ns)} (${percent(makespanNs ? ns / makespanNs : 0, 1)})`;
  const reasons = IDLE_REASONS.filter((reason: IdleReason) => entry.byReason[reason] > 0);
  return tooltipElement(`${t.device} ${entry.device}`, [
    line(t.compute, entry.computeNs),
    line(t.epilogue, entry.epilogueNs),
    ...reasons.map((reason) => line(t.reasons[reason], entry.byReason[reason])),
  ]);
}
