import { SortableTable } from "../../components/sortable-table";
import { bytes, percent } from "../../format";
import { texts } from "../../i18n";
import { known } from "./facts";
import { yesNo } from "./front";
import type { SweepRow } from "./types";

/** The plan of each weight that was asked for. */
export function Sweep(props: { rows: readonly SweepRow[] }) {
  const t = texts().sharding;
  const figure = (
    id: string,
    title: string,
    value: (row: SweepRow) => number | null | undefined,
  ) => ({
    id,
    title,
    cell: (row: SweepRow) => known(value(row), bytes) ?? "–",
    value: (row: SweepRow) => value(row) ?? null,
    numeric: true,
  });
  return (
    <>
      <h3>{t.front.sweep}</h3>
      <SortableTable
        caption={t.front.sweep}
        columns={[
          {
            id: "alpha",
            title: t.front.alpha,
            cell: (row) => String(row.alpha),
            value: (row) => row.alpha,
            numeric: true,
          },
          {
            id: "status",
            title: t.front.status,
            cell: (row) => t.front.statuses[row.status] ?? row.status,
            value: (row) => row.status,
          },
          figure("redundant", t.facts.redundant, (row) => row.redundant_bytes),
          figure("sent", t.operators.sent, (row) => row.communication_bytes),
          figure("objective", t.front.objective, (row) => row.objective),
          figure("kept", t.front.kept, (row) => row.memory_bytes),
          figure("peak", t.front.peak, (row) => row.predicted_peak_bytes),
          {
            id: "proven",
            title: t.front.proven,
            cell: (row) => yesNo(row.proven),
            value: (row) => row.proven,
          },
          {
            id: "gap",
            title: t.front.gap,
            cell: (row) => known(row.gap, (gap) => percent(gap)) ?? "–",
            value: (row) => row.gap,
            numeric: true,
          },
        ]}
        rows={props.rows}
        rowKey={(row) => String(row.alpha)}
        rowClass={(row) => (row === props.rows[0] ? "is-marked" : "")}
      />
    </>
  );
}
