import { useMemo } from "preact/hooks";
import type { IdleReason, Timeline } from "../../api/types";
import { Chart } from "../../charts/chart";
import { type Column, SortableTable } from "../../components/sortable-table";
import { bytes, milliseconds, percent } from "../../format";
import { texts } from "../../i18n";
import { chartColours, isDark } from "../../palette";
import { barChartHeight } from "../../views/pipeline/bar-option";
import { IDLE_REASONS } from "../../views/pipeline/idle";
import { bytesDifference } from "./difference";
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
  const time = (ns: number, timeline: Timeline) => {
    const share = percent(shareOf(ns, timeline), 1);
    return props.sharesOnly ? share : `${milliseconds(ns)} (${share})`;
  };
  return [
    { id: "device", title: g.device, cell: (row) => row.device, value: (row) => row.device },
    {
      id: "idleA",
      title: g.idleA,
      cell: (row) => time(row.idleNs.a, props.a),
      value: (row) => shareOf(row.idleNs.a, props.a),
      numeric: true,
    },
    {
      id: "idleB",
      title: g.idleB,
      cell: (row) => time(row.idleNs.b, props.b),
      value: (row) => shareOf(row.idleNs.b, props.b),
      numeric: true,
    },
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
    {
      id: "peakA",
      title: g.peakA,
      cell: (row) => bytes(row.peakBytes.a),
      value: (row) => row.peakBytes.a,
      numeric: true,
    },
    {
      id: "peakB",
      title: g.peakB,
      cell: (row) => bytes(row.peakBytes.b),
      value: (row) => row.peakBytes.b,
      numeric: true,
    },
    {
      id: "peakChange",
      title: g.peakChange,
      cell: (row) => bytesDifference(row.peakBytes.a, row.peakBytes.b),
      value: (row) => row.peakBytes.b - row.peakBytes.a,
      numeric: true,
    },
  ];
}
