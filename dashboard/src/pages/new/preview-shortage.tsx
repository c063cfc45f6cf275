/** Why nothing fits into memory, and what would. */

import { type Column, SortableTable } from "../../components/sortable-table";
import { bytes } from "../../format";
import { texts } from "../../i18n";
import type { Shortage } from "./preview-types";

type Remedy = Shortage["remedies"][number];

export function ShortageReport(props: { shortage: Shortage }) {
  const t = texts().form.check;
  const { shortage } = props;
  const rows = shortage.devices.map((device, index) => ({
    device,
    needed: shortage.bytes[index] ?? null,
    limit: shortage.limit_bytes[index] ?? null,
  }));
  const needs: Column<(typeof rows)[number]>[] = [
    { id: "device", title: t.device, cell: (row) => String(row.device) },
    { id: "needed", title: t.needed, numeric: true, cell: (row) => size(row.needed) },
    { id: "limit", title: t.limit, numeric: true, cell: (row) => size(row.limit) },
  ];
  const remedies: Column<Remedy>[] = [
    { id: "remedy", title: t.remedy, cell: (row) => row.remedy.replaceAll("_", " ") },
    {
      id: "fits",
      title: t.helps,
      cell: (row) => <Answer is={row.fits} />,
    },
    { id: "detail", title: t.detail, cell: (row) => row.detail },
  ];
  return (
    <>
      <p lang="en">{shortage.summary}</p>
      <SortableTable
        caption={t.deviceTable}
        columns={needs}
        rows={rows}
        rowKey={(row) => String(row.device)}
      />
      <h4>{t.remedies}</h4>
      <div lang="en">
        <SortableTable
          caption={t.remedies}
          columns={remedies}
          rows={shortage.remedies}
          rowKey={(row) => `${row.remedy} ${row.detail}`}
        />
      </div>
    </>
  );
}

function size(value: number | null): string {
  return value === null ? "–" : bytes(value);
}

function Answer(props: { is: boolean }) {
  const t = texts().common;
  return <span class="nowrap">{props.is ? `✓ ${t.yes}` : `✕ ${t.no}`}</span>;
}
