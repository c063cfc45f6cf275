/** The bounds as bars below the plan's own. */

import type { EChartsCoreOption } from "echarts/core";
import { barFrame } from "../../charts/time-bars";
import { rowTooltip, tooltipElement } from "../../charts/tooltip";
import { percent, writerOf } from "../../format";
import type { Messages } from "../../i18n";
import { serviceName } from "../../i18n/service-text";
import type { ChartColours } from "../../palette";
import type { Bound } from "./types";

export function boundsOption(
  planNs: number | null,
  bounds: readonly Bound[],
  colours: ChartColours,
  t: Messages["pipeline"]["better"],
): EChartsCoreOption {
  const rows = [{ name: `▶ ${t.plan}`, value_ns: planNs ?? 0 }, ...bounds];
  const longestNs = Math.max(...rows.map((row) => row.value_ns));
  const write = writerOf("time", [longestNs]);
  const frame = barFrame(
    rows.map((row) => serviceName("bound", row.name)),
    longestNs,
    colours,
  );
  return {
    ...frame,
    grid: { ...frame.grid, top: 8 },
    legend: { show: false },
    tooltip: rowTooltip(colours, (index) => {
      const row = rows[index];
      const share = planNs && row ? percent(row.value_ns / planNs, 1) : "";
      return tooltipElement(row ? serviceName("bound", row.name) : "", [
        write(row?.value_ns ?? 0),
        `${share} ${t.ofPlan}`,
      ]);
    }),
    series: [
      {
        type: "bar",
        barMaxWidth: 16,
        data: rows.map((row, index) => ({
          value: row.value_ns,
          itemStyle: {
            color: index === 0 ? colours.series[0] : colours.series[1],
            opacity: index < 2 ? 1 : 0.55,
          },
          label: {
            show: true,
            position: "right",
            color: colours.text,
            opacity: 1,
            formatter: write(row.value_ns),
          },
        })),
        markLine: {
          silent: true,
          symbol: "none",
          label: { show: false },
          lineStyle: { color: colours.limit, type: "dashed" },
          data: [{ xAxis: planNs ?? 0 }],
        },
      },
    ],
  };
}
