/** Change of idle time per device and reason: bars to the left are gains. */

import type { EChartsCoreOption } from "echarts/core";
import { barFrame, hatched } from "../../charts/time-bars";
import { rowTooltip, tooltipElement } from "../../charts/tooltip";
import { writerOf } from "../../format";
import type { Messages } from "../../i18n";
import { type ChartColours, IDLE_COLOURS } from "../../palette";
import { IDLE_REASONS } from "../../views/pipeline/idle";
import { signed } from "./difference";
import type { DeviceGain } from "./gains";

export function gainsOption(
  gains: readonly DeviceGain[],
  colours: ChartColours,
  t: Messages["compare"]["gains"],
  idle: Messages["pipeline"]["idle"],
): EChartsCoreOption {
  const reasons = IDLE_REASONS.filter((reason) =>
    gains.some((gain) => gain.a[reason] !== gain.b[reason]),
  );
  const changes = gains.flatMap((gain) => reasons.map((reason) => gain.b[reason] - gain.a[reason]));
  const write = writerOf("time", changes);
  const name = (gain: DeviceGain) => `${t.device} ${gain.device}`;
  return {
    ...barFrame(gains.map(name), longest(changes), colours),
    tooltip: rowTooltip(colours, (index) => {
      const gain = gains[index];
      const lines = reasons.map((reason) => {
        const byNs = (gain?.b[reason] ?? 0) - (gain?.a[reason] ?? 0);
        return `${idle.reasons[reason]}: ${signed(byNs, write)}`;
      });
      return tooltipElement(gain ? name(gain) : "", lines);
    }),
    series: reasons.map((reason, index) => ({
      name: idle.reasons[reason],
      type: "bar",
      stack: "change",
      barMaxWidth: 16,
      itemStyle: {
        color: IDLE_COLOURS[reason],
        ...(index % 2 === 1 ? { decal: hatched(colours) } : {}),
      },
      data: gains.map((gain) => gain.b[reason] - gain.a[reason]),
    })),
  };
}

function longest(changes: readonly number[]): number {
  return Math.max(0, ...changes.map(Math.abs));
}
