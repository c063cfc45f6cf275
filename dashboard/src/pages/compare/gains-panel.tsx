import { useMemo } from "preact/hooks";
import type { IdleReason, Timeline } from "../../api/types";
import { Chart } from "../../charts/chart";
import { barChartHeight } from "../../charts/time-bars";
import { type Column, measured, SortableTable } from "../../components/sortable-table";
import { percent } from "../../format";
import { texts } from "../../i18n";
import { chartColours, isDark } from "../../palette";
import { IDLE_REASONS } from "../../views/pipeline/idle";
import { signed } from "./difference";
import { type DeviceGain, deviceGains } from "./gains";
import { gainsOption } from "./gains-chart";

interface Props {
  a: Timeline;
  b: Timeline;
  /** The work differs, so only shares of each makespan can be compared. */
  sharesOnly: boolean;
}

/** How much less or more each device waits in B, for what, and what memory it takes. */
export function GainsPanel(props: Props) {
  const t = texts().compare.gains;
  const gains = useMemo(() => deviceGains(props.a, props.b), [props.a, props.b]);
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      {!props.sharesOnly && <GainsChart gains={gains} />}
      <SortableTable
        caption={t.table}
        columns={columns(props, gains)}
        rows={gains}
        rowKey={(row) => String(row.device)}
      />
    </section>
  );
}

function GainsChart(props: { gains: readonly DeviceGain[] }) {
  const t = texts();
  const dark = isDark.value;
  const option = useMemo(
    () => gainsOption(props.gains, chartColours(dark), t.compare.gains, t.pipeline.idle),
    [props.gains, dark, t],
  );
  return (
    <>
      <p class="faint">{t.compare.gains.note}</p>
      <Chart
        label={t.compare.gains.chart}
        option={option}
        height={barChartHeight(props.gains.length)}
      />
    </>
  );
}

function columns(props: Props, gains: readonly DeviceGain[]): Column<DeviceGain>[] {
  const t = texts();
  const g = t.compare.gains;
  const occurs = (reason: IdleReason) => gains.some((gain) => gain.a[reason] || gain.b[reason]);
  const shareOf = (ns: number, timeline: Timeline) =>
    timeline.makespan_ns ? ns / timeline.makespan_ns : 0;
  const idle = (
    id: string,
    title: string,
    timeline: Timeline,
    valueNs: (row: DeviceGain) => number,
  ): Column<DeviceGain> => {
    const share = (row: DeviceGain) => percent(shareOf(valueNs(row), timeline), 1);
    return props.sharesOnly
      ? { id, title, numeric: true, cell: share, value: valueNs }
      : {
          ...measured("time", id, title, valueNs),
          cell: (row, write) => `${write(valueNs(row))} (${share(row)})`,
        };
  };
  return [
    { id: "device", title: g.device, cell: (row) => row.device, value: (row) => row.device },
    idle("idleA", g.idleA, props.a, (row) => row.idleNs.a),
    idle("idleB", g.idleB, props.b, (row) => row.idleNs.b),
    ...IDLE_REASONS.filter(occurs).map(
      (reason): Column<DeviceGain> => ({
        id: reason,
        title: t.pipeline.idle.reasons[reason],
        numeric: true,
        cell: (row) => {
          const [a, b] = [shareOf(row.a[reason], props.a), shareOf(row.b[reason], props.b)];
          return `${percent(a, 1)} → ${percent(b, 1)}`;
        },
        value: (row) => shareOf(row.b[reason], props.b) - shareOf(row.a[reason], props.a),
      }),
    ),
    measured("bytes", "peakA", g.peakA, (row) => row.peakBytes.a, "peak"),
    measured("bytes", "peakB", g.peakB, (row) => row.peakBytes.b, "peak"),
    {
      ...measured("bytes", "peakChange", g.peakChange, peakChange, "peak"),
      cell: (row, write) => signed(peakChange(row), write),
    },
  ];
}

function peakChange(row: DeviceGain): number {
  return row.peakBytes.b - row.peakBytes.a;
}
