import { known, yesNo } from "../../components/fact";
import { measured, SortableTable } from "../../components/sortable-table";
import { percent } from "../../format";
import { texts } from "../../i18n";
import type { SweepRow } from "./types";

/** The plan of each weight that was asked for. */
export function Sweep(props: { rows: readonly SweepRow[] }) {
  const t = texts().sharding;
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
          measured<SweepRow>("bytes", "redundant", t.facts.redundant, (row) => row.redundant_bytes),
          measured<SweepRow>("bytes", "sent", t.operators.sent, (row) => row.communication_bytes),
          measured<SweepRow>("bytes", "objective", t.front.objective, (row) => row.objective),
          measured<SweepRow>("bytes", "kept", t.front.kept, (row) => row.memory_bytes),
          measured<SweepRow>("bytes", "peak", t.front.peak, (row) => row.predicted_peak_bytes),
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
