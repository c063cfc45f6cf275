/** What a plan rests on: warnings, and assumptions with their basis. */

import type { Assumption } from "../../api/types";
import { SortableTable } from "../../components/sortable-table";
import { texts } from "../../i18n";

export function Warnings(props: { warnings: readonly string[] }) {
  if (props.warnings.length === 0) {
    return null;
  }
  return (
    <section class="banner banner-stale" aria-label={texts().sharding.basis.warnings}>
      <strong>{texts().sharding.basis.warnings}</strong>
      <ul class="shard-warnings">
        {props.warnings.map((warning) => (
          <li key={warning}>{warning}</li>
        ))}
      </ul>
    </section>
  );
}

export function Assumptions(props: { assumptions: readonly Assumption[] }) {
  const t = texts().sharding.basis;
  if (props.assumptions.length === 0) {
    return null;
  }
  return (
    <details class="panel">
      <summary>{t.assumptions(props.assumptions.length)}</summary>
      <SortableTable
        caption={t.assumptions(props.assumptions.length)}
        columns={[
          { id: "what", title: t.what, cell: (row) => row.what, value: (row) => row.what },
          { id: "value", title: t.value, cell: (row) => String(row.value ?? "–") },
          { id: "basis", title: t.why, cell: (row) => row.basis },
        ]}
        rows={props.assumptions}
        rowKey={(row) => `${row.what} ${row.value}`}
      />
    </details>
  );
}

export function RawProvenance(props: { provenance: unknown }) {
  return (
    <details>
      <summary>{texts().sharding.basis.raw}</summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keys. */}
      <pre tabIndex={0}>{JSON.stringify(props.provenance, null, 2)}</pre>
    </details>
  );
}
