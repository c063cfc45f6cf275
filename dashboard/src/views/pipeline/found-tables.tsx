import { type Column, measured, SortableTable } from "../../components/sortable-table";
import { number } from "../../format";
import { texts } from "../../i18n";
import { serviceName } from "../../i18n/service-text";
import { optionRows, type StepRow, stepRows } from "./found";
import type { Improvement, Provenance } from "./types";

export function StepsTable(props: { provenance: Provenance }) {
  const t = texts().pipeline.found;
  const rows = stepRows(props.provenance);
  if (rows.length === 0) {
    return null;
  }
  const columns: Column<StepRow>[] = [
    { id: "step", title: t.step, cell: (row) => serviceName("step", row.step) },
    { id: "began", title: t.began, cell: (row) => `${number(row.began_s, 1)} s`, numeric: true },
    { id: "until", title: t.until, cell: untilText, numeric: true },
    measured("time", "reached", t.reached, (row) => row.reached_ns, "time"),
    measured("time", "best", t.bestAfter, (row) => row.best_ns, "time"),
    { ...measured<StepRow>("time", "gain", t.gain, (row) => row.gainNs, "time"), cell: gainText },
    measured("time", "bound", t.boundAfter, (row) => row.lower_bound_ns, "time"),
  ];
  return (
    <>
      <h3>{t.steps}</h3>
      <SortableTable caption={t.steps} columns={columns} rows={rows} rowKey={(row) => row.key} />
    </>
  );
}

export function ImprovementsTable(props: { provenance: Provenance }) {
  const t = texts().pipeline.found;
  const rows = (props.provenance.steps ?? []).map((step, index) => ({ ...step, key: index }));
  if (rows.length === 0) {
    return null;
  }
  const columns: Column<Improvement & { key: number }>[] = [
    { id: "at", title: t.at, cell: (row) => `${number(row.seconds, 2)} s`, numeric: true },
    measured("time", "objective", t.objective, (row) => row.objective_ns),
    { id: "foundBy", title: t.foundBy, cell: (row) => serviceName("foundBy", row.found_by) },
    { id: "placement", title: t.placement, cell: (row) => serviceName("placement", row.placement) },
  ];
  return (
    <details>
      <summary>{`${t.improvements} (${number(rows.length)})`}</summary>
      <SortableTable
        caption={t.improvements}
        columns={columns}
        rows={rows}
        rowKey={(row) => String(row.key)}
      />
    </details>
  );
}

export function OptionsTable(props: { provenance: Provenance }) {
  const t = texts().pipeline.found;
  const rows = optionRows(props.provenance);
  if (rows.length === 0) {
    return null;
  }
  const columns: Column<{ name: string; value: string | null }>[] = [
    { id: "name", title: t.option, cell: (row) => <code>{row.name}</code> },
    {
      id: "value",
      title: t.value,
      cell: (row) => row.value ?? <span class="faint">{t.notSet}</span>,
    },
  ];
  return (
    <details>
      <summary>{t.options}</summary>
      <SortableTable caption={t.options} columns={columns} rows={rows} rowKey={(row) => row.name} />
    </details>
  );
}

function untilText(row: StepRow): string {
  const ended = row.ended_s ?? null;
  return ended === null ? texts().pipeline.found.interrupted : `${number(ended, 1)} s`;
}

function gainText(row: StepRow, write: (ns: number) => string): string {
  const t = texts().pipeline.found;
  if (row.gainNs === null) {
    return "–";
  }
  return row.gainNs > 0 ? `−${write(row.gainNs)}` : t.noGain;
}
