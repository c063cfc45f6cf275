import type { Assumption } from "../../api/types";
import { type Column, SortableTable } from "../../components/sortable-table";
import { texts } from "../../i18n";

/** What the figures rest on. */
export function AssumptionsPanel(props: { assumptions: readonly Assumption[] | undefined }) {
  const t = texts().pipeline.assumptions;
  const { assumptions } = props;
  const columns: Column<Assumption & { key: string }>[] = [
    { id: "what", title: t.what, cell: (row) => row.what, value: (row) => row.what },
    { id: "value", title: t.value, cell: (row) => row.value ?? "–" },
    { id: "basis", title: t.basis, cell: (row) => row.basis },
  ];
  return (
    <section class="panel">
      <details>
        <summary>
          <h2>{t.title(assumptions?.length ?? 0)}</h2>
        </summary>
        {assumptions?.length ? (
          <SortableTable
            caption={t.title(assumptions.length)}
            columns={columns}
            rows={assumptions.map((entry, index) => ({ ...entry, key: String(index) }))}
            rowKey={(row) => row.key}
          />
        ) : (
          <p>{assumptions ? t.none : t.absent}</p>
        )}
      </details>
    </section>
  );
}
