import { type Column, SortableTable } from "../../components/sortable-table";
import { bytes } from "../../format";
import { texts } from "../../i18n";
import type { Infeasibility } from "./types";

type Remedy = NonNullable<Infeasibility["remedies"]>[number];

interface Shortage {
  device: number;
  neededBytes: number | null;
  limitBytes: number | null;
  smallestBytes: number | null;
}

/** Why no schedule fits into memory, and what would make one fit. */
export function InfeasiblePanel(props: { infeasibility: Infeasibility }) {
  const t = texts().pipeline.infeasible;
  const { infeasibility } = props;
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      {infeasibility.summary && <p>{infeasibility.summary}</p>}
      <Shortages infeasibility={infeasibility} />
      {infeasibility.placement && <p class="faint">{t.placement(infeasibility.placement)}</p>}
      <Remedies remedies={infeasibility.remedies ?? []} />
    </section>
  );
}

function Shortages(props: { infeasibility: Infeasibility }) {
  const t = texts().pipeline.infeasible;
  const { devices = [], ...rest } = props.infeasibility;
  const rows: Shortage[] = devices.map((device, index) => ({
    device,
    neededBytes: rest.bytes?.[index] ?? null,
    limitBytes: rest.limit_bytes?.[index] ?? null,
    smallestBytes: rest.smallest_limit_bytes?.[index] ?? null,
  }));
  if (rows.length === 0) {
    return null;
  }
  const size = (
    id: string,
    title: string,
    value: (row: Shortage) => number | null,
  ): Column<Shortage> => ({
    id,
    title,
    value,
    numeric: true,
    cell: (row) => bytesText(value(row)),
  });
  const columns: Column<Shortage>[] = [
    { id: "device", title: t.device, cell: (row) => row.device, value: (row) => row.device },
    size("limit", t.limit, (row) => row.limitBytes),
    size("smallest", t.smallest, (row) => row.smallestBytes),
    size("missing", t.missing, missingBytes),
    size("needed", t.needed, (row) => row.neededBytes),
  ];
  return (
    <>
      <h3>{t.devices}</h3>
      <SortableTable
        caption={t.devices}
        columns={columns}
        rows={rows}
        rowKey={(row) => String(row.device)}
      />
    </>
  );
}

function Remedies(props: { remedies: readonly Remedy[] }) {
  const t = texts();
  if (props.remedies.length === 0) {
    return null;
  }
  const fits = (row: Remedy) =>
    row.fits === null
      ? t.pipeline.infeasible.cannotTell
      : row.fits
        ? `✓ ${t.common.yes}`
        : `✕ ${t.common.no}`;
  const columns: Column<Remedy>[] = [
    { id: "remedy", title: t.pipeline.infeasible.remedy, cell: (row) => row.remedy },
    { id: "fits", title: t.pipeline.infeasible.fits, cell: fits },
    { id: "detail", title: t.pipeline.infeasible.detail, cell: (row) => row.detail },
    { id: "basis", title: t.pipeline.infeasible.basis, cell: (row) => row.basis },
  ];
  return (
    <>
      <h3>{t.pipeline.infeasible.remedies}</h3>
      <SortableTable
        caption={t.pipeline.infeasible.remedies}
        columns={columns}
        rows={props.remedies}
        rowKey={(row) => `${row.remedy} ${row.detail}`}
      />
    </>
  );
}

function bytesText(value: number | null): string {
  return value === null ? "–" : bytes(value);
}

function missingBytes(row: Shortage): number | null {
  return row.smallestBytes === null || row.limitBytes === null
    ? null
    : row.smallestBytes - row.limitBytes;
}
