/** The schedule as tables: for screen readers, and for those who want the figures. */

import type { DeviceTimeline, HostTimeline, LinkUse, Timeline } from "../../api/types";
import { IDLE_REASONS } from "../../charts/gantt/layers";
import type { GanttModel, Row } from "../../charts/gantt/model";
import { type Column, measured, SortableTable } from "../../components/sortable-table";
import { percent } from "../../format";
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
    measured("time", "compute", t.compute, computeOf),
    measured("time", "epilogue", t.epilogueTitle, (entry) => entry.epilogue_ns ?? 0),
    {
      id: "share",
      title: t.computeShare,
      cell: (entry) => percent(computeOf(entry) / Math.max(1, makespan_ns)),
      value: computeOf,
      numeric: true,
    },
    ...IDLE_REASONS.map((reason) =>
      measured<DeviceTimeline>(
        "time",
        reason,
        t.idleTitle(t.idleReasons[reason]),
        (entry) => entry.idle_ns[reason],
      ),
    ),
    ...memoryColumns<DeviceTimeline>(),
    measured("time", "first", t.firstStart, first),
    measured("time", "last", t.lastEnd, last),
  ];
}

function linkColumns(timeline: Timeline): Column<LinkUse>[] {
  const t = texts().gantt;
  return [
    { id: "link", title: t.hostLink, cell: (entry) => entry.link, value: (entry) => entry.link },
    { id: "devices", title: t.devicesTitle, cell: (entry) => listOf(entry.devices) },
    measured("time", "offload", t.offloading, (entry) => entry.offload_busy_ns),
    measured("time", "reload", t.reloading, (entry) => entry.reload_busy_ns),
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
      ...measured<Entry>("bytes", "peak", t.peak, (entry) => entry.peak_bytes, "memory"),
      cell: (entry, write) => `${write(entry.peak_bytes)}${isOver(entry) ? ` ${t.overLimit}` : ""}`,
    },
    {
      ...measured<Entry>("bytes", "limit", t.memoryLimit, (entry) => entry.limit_bytes, "memory"),
      cell: (entry, write) =>
        entry.limit_bytes === null ? texts().common.none : write(entry.limit_bytes),
    },
  ];
}

function isOver(entry: { peak_bytes: number; limit_bytes: number | null }): boolean {
  return entry.limit_bytes !== null && entry.peak_bytes > entry.limit_bytes;
}

/** In F, B and W: the time of the epilogue is apart. */
function computeOf(entry: DeviceTimeline): number {
  return entry.busy_ns - (entry.epilogue_ns ?? 0);
}
