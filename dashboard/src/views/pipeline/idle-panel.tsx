import { useMemo } from "preact/hooks";
import type { LinkUse, Timeline } from "../../api/types";
import { Chart } from "../../charts/chart";
import { barChartHeight } from "../../charts/time-bars";
import { type Column, measured, SortableTable } from "../../components/sortable-table";
import { Loading } from "../../components/states";
import { percent, writerOf } from "../../format";
import { texts } from "../../i18n";
import { chartColours, isDark } from "../../palette";
import type { Loaded } from "../../use-load";
import { type DeviceShares, deviceShares, IDLE_REASONS, idleByReason, longestWait } from "./idle";
import { idleOption } from "./idle-chart";

/** How each device spends the makespan, and how much the host links are used. */
export function IdlePanel(props: { timeline: Loaded<Timeline> }) {
  const t = texts().pipeline.idle;
  const { value, error } = props.timeline;
  if (!value && error) {
    // The schedule above says what is wrong, and can be asked for again there.
    return null;
  }
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      {value ? <TimeUse timeline={value} /> : <Loading what={t.loading} />}
    </section>
  );
}

function TimeUse(props: { timeline: Timeline }) {
  const t = texts().pipeline.idle;
  const { timeline } = props;
  const dark = isDark.value;
  const shares = useMemo(() => deviceShares(timeline), [timeline]);
  const option = useMemo(
    () => idleOption(shares, timeline.makespan_ns, chartColours(dark), t),
    [shares, timeline, dark, t],
  );
  return (
    <>
      <Conclusion timeline={timeline} />
      <Chart label={t.chart} option={option} height={barChartHeight(shares.length)} />
      <p class="faint">{t.split}</p>
      <details>
        <summary>{t.table}</summary>
        <SortableTable
          caption={t.table}
          columns={shareColumns(shares, timeline.makespan_ns)}
          rows={shares}
          rowKey={(row) => String(row.device)}
        />
      </details>
      <Links timeline={timeline} />
    </>
  );
}

function Conclusion(props: { timeline: Timeline }) {
  const t = texts().pipeline.idle;
  const longest = longestWait(props.timeline);
  if (longest === null) {
    return <p>{t.none}</p>;
  }
  const reasons = idleByReason(props.timeline);
  const total = reasons.reduce((sum, entry) => sum + entry.ns, 0);
  const parts = reasons.map((entry) =>
    t.part(percent(entry.ns / total, 0), t.reasons[entry.reason]),
  );
  return (
    <p>
      {t.longest(
        longest.device,
        percent(longest.idleShare, 0),
        writerOf("time", [props.timeline.makespan_ns])(longest.idleNs),
        percent(longest.shareOfIdle, 0),
        t.explained[longest.reason],
      )}{" "}
      {t.overall(parts.join(", "))}
    </p>
  );
}

function shareColumns(shares: readonly DeviceShares[], makespanNs: number): Column<DeviceShares>[] {
  const t = texts().pipeline.idle;
  const timeColumn = (
    id: string,
    title: string,
    value: (row: DeviceShares) => number,
  ): Column<DeviceShares> => ({
    ...measured("time", id, title, value),
    cell: (row, write) => shareText(value(row), makespanNs, write),
  });
  const occurring = IDLE_REASONS.filter((reason) => shares.some((row) => row.byReason[reason] > 0));
  return [
    { id: "device", title: t.device, cell: (row) => row.device, value: (row) => row.device },
    timeColumn("compute", t.compute, (row) => row.computeNs),
    timeColumn("epilogue", t.epilogue, (row) => row.epilogueNs),
    timeColumn("idle", t.total, (row) => row.idleNs),
    ...occurring.map((reason) =>
      timeColumn(reason, t.reasons[reason], (row) => row.byReason[reason]),
    ),
  ];
}

function shareText(ns: number, makespanNs: number, write: (ns: number) => string): string {
  return `${write(ns)} (${percent(makespanNs ? ns / makespanNs : 0, 1)})`;
}

function Links(props: { timeline: Timeline }) {
  const t = texts().pipeline.idle;
  const { links, makespan_ns: makespanNs } = props.timeline;
  const use = (id: string, title: string, value: (row: LinkUse) => number): Column<LinkUse> => ({
    ...measured("time", id, title, value),
    cell: (row, write) => (value(row) === 0 ? t.unused : shareText(value(row), makespanNs, write)),
  });
  const columns: Column<LinkUse>[] = [
    { id: "link", title: t.link, cell: (row) => row.link, value: (row) => row.link },
    { id: "devices", title: t.devices, cell: (row) => row.devices.join(", ") },
    use("offload", t.offloading, (row) => row.offload_busy_ns),
    use("reload", t.reloading, (row) => row.reload_busy_ns),
  ];
  return (
    <>
      <h3>{t.links}</h3>
      {links.length === 0 ? (
        <p class="faint">{t.noLinks}</p>
      ) : (
        <SortableTable
          caption={t.links}
          columns={columns}
          rows={links}
          rowKey={(row) => `${row.link} ${row.devices.join()}`}
        />
      )}
    </>
  );
}
