/** Parts that the previews of all kinds have. */

import type { ComponentChildren } from "preact";
import type { Assumption } from "../../api/types";
import { type Column, SortableTable } from "../../components/sortable-table";
import { texts } from "../../i18n";

export function Fact(props: { title: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{props.title}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

export function Assumptions(props: { assumptions: readonly Assumption[] }) {
  const t = texts().form.check;
  if (props.assumptions.length === 0) {
    return null;
  }
  const columns: Column<Assumption>[] = [
    { id: "what", title: t.what, cell: (row) => row.what },
    { id: "value", title: t.value, cell: (row) => String(row.value ?? "–") },
    { id: "basis", title: t.basis, cell: (row) => row.basis },
  ];
  const title = t.assumptions(props.assumptions.length);
  return (
    <details>
      <summary>{title}</summary>
      <div lang="en">
        <SortableTable
          caption={title}
          columns={columns}
          rows={props.assumptions}
          rowKey={(row) => `${row.what} ${row.value}`}
        />
      </div>
    </details>
  );
}

export function SolverOptions(props: { options: Readonly<Record<string, unknown>> }) {
  const t = texts().form.check;
  const columns: Column<[string, unknown]>[] = [
    { id: "option", title: t.option, cell: ([name]) => <code>{name}</code> },
    { id: "value", title: t.value, cell: ([, value]) => JSON.stringify(value) },
  ];
  return (
    <details>
      <summary>{t.options}</summary>
      <SortableTable
        caption={t.options}
        columns={columns}
        rows={Object.entries(props.options)}
        rowKey={([name]) => name}
      />
    </details>
  );
}
