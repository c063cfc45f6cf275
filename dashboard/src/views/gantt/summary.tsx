/** The schedule as tables: for screen readers, and for those who want the figures. */

import type { DeviceTimeline, HostTimeline, LinkUse, Timeline } from "../../api/types";
import { IDLE_REASONS } from "../../charts/gantt/layers";
import type { GanttModel, Row } from "../../charts/gantt/model";
import { type Column, SortableTable } from "../../components/sortable-table";
import { bytes, exactTime, percent } from "../../format";
import { texts } from "../../i18n";
import { listOf } from "./look";

export function Summary({ model }: { model: GanttModel }) {
  const t = texts().gantt;
  const { devices, hosts, links } = model.timeline;
  const usedLinks = links.filter((link) => link.offload_busy_ns + link.reload_busy_ns > 0);
  return (
    <details class="gantt-summary">
      <summary>{t.asTables}</summary>
      <SortableTable
        caption={t.devicesTable}
        columns={deviceColumns(model)}
        rows={devices}
        rowKey={(entry) => String(entry.device)}
        sortedBy="device"
      />
      {usedLinks.length > 0 && (
        <SortableTable
          caption={t.linksTable}
          columns={linkColumns(model.timeline)}
          rows={usedLinks}
          rowKey={(entry) => entry.link}
        />
      )}
      {hosts.length > 0 && (
        <SortableTable
          caption={t.hostsTable}
          columns={hostColumns()}
          rows={hosts}
          rowKey={(entry) => String(entry.host)}
          sortedBy="host"
        />
      )}
    </details>
  );
}

function deviceColumns(model: GanttModel): Column<DeviceTimeline>[] {
  const t = texts().gantt;
  const { makespan_ns } = model.timeline;
  const rowOf = new Map<number, Row>(
    model.rows.filter((row) => row.kind === "device").map((row) => [row.device, row]),
  );
  const first = (entry: DeviceTimeline) => rowOf.get(entry.device)?.startNs[0] ?? null;
  const last = (entry: DeviceTimeline) => rowOf.get(entry.device)?.endNs.at(-1) ?? null;
  return [
    {
      id: "device",
      title: t.deviceTitle,
      cell: (entry) => t.device(entry.device),
      value: (entry) => entry.device,
    },
    timeColumn("busy", t.busy, (entry) => entry.busy_ns),
    {
      id: "share",
      title: t.busyShare,
      cell: (entry) => percent(entry.busy_ns / Math.max(1, makespan_ns)),
      value: (entry) => entry.busy_ns,
      numeric: true,
    },
    ...IDLE_REASONS.map((reason) =>
      timeColumn<DeviceTimeline>(
        reason,
        t.idleTitle(t.idleReasons[reason]),
        (entry) => entry.idle_ns[reason],
      ),
    ),
    ...memoryColumns<DeviceTimeline>(),
    timeColumn("first", t.firstStart, first),
    timeColumn("last", t.lastEnd, last),
  ];
}

function linkColumns(timeline: Timeline): Column<LinkUse>[] {
  const t = texts().gantt;
  return [
    { id: "link", title: t.hostLink, cell: (entry) => entry.link, value: (entry) => entry.link },
    { id: "devices", title: t.devicesTitle, cell: (entry) => listOf(entry.devices) },
    timeColumn("offload", t.offloading, (entry) => entry.offload_busy_ns),
    timeColumn("reload", t.reloading, (entry) => entry.reload_busy_ns),
    {
      id: "share",
      title: t.linkShare,
      cell: (entry) =>
        `${percent(entry.offload_busy_ns / Math.max(1, timeline.makespan_ns))} / ${percent(entry.reload_busy_ns / Math.max(1, timeline.makespan_ns))}`,
      numeric: true,
    },
  ];
}

function hostColumns(): Column<HostTimeline>[] {
  const t = texts().gantt;
  return [
    {
      id: "host",
      title: t.hostTitle,
      cell: (entry) => t.host(entry.host),
      value: (entry) => entry.host,
    },
    ...memoryColumns<HostTimeline>(),
  ];
}

function memoryColumns<
  Entry extends { peak_bytes: number; limit_bytes: number | null },
>(): Column<Entry>[] {
  const t = texts().gantt;
  return [
    {
      id: "peak",
      title: t.peak,
      cell: (entry) => `${bytes(entry.peak_bytes)}${isOver(entry) ? ` ${t.overLimit}` : ""}`,
      value: (entry) => entry.peak_bytes,
      numeric: true,
    },
    {
      id: "limit",
      title: t.memoryLimit,
      cell: (entry) =>
        entry.limit_bytes === null ? texts().common.none : bytes(entry.limit_bytes),
      value: (entry) => entry.limit_bytes,
      numeric: true,
    },
  ];
}

function isOver(entry: { peak_bytes: number; limit_bytes: number | null }): boolean {
  return entry.limit_bytes !== null && entry.peak_bytes > entry.limit_bytes;
}

function timeColumn<Entry>(
  id: string,
  title: string,
  value: (entry: Entry) => number | null,
): Column<Entry> {
  return {
    id,
    title,
    cell: (entry) => {
      const timeNs = value(entry);
      return timeNs === null ? "–" : exactTime(timeNs);
    },
    value,
    numeric: true,
  };
}
