/** What a plan rests on: warnings, and assumptions with their basis. */

import type { Assumption } from "../api/types";
import { texts } from "../i18n";
import { SortableTable } from "./sortable-table";

export function Warnings(props: { warnings: readonly string[] }) {
  if (props.warnings.length === 0) {
    return null;
  }
  return (
    <section class="banner banner-stale" aria-label={texts().common.basis.warnings}>
      <strong>{texts().common.basis.warnings}</strong>
      <ul class="banner-list" lang="en">
        {props.warnings.map((warning) => (
          <li key={warning}>{warning}</li>
        ))}
      </ul>
    </section>
  );
}

/** What the figures rest on; `undefined` where that was not kept. */
export function Assumptions(props: {
  assumptions: readonly Assumption[] | undefined;
  /** Of a part of a panel, whose heading is above it. */
  isPart?: boolean;
}) {
  const t = texts().common.basis;
  const { assumptions } = props;
  if (assumptions?.length === 0) {
    return null;
  }
  const title = t.assumptions(assumptions?.length ?? 0);
  return (
    <details class={props.isPart ? "" : "panel"}>
      <summary>{props.isPart ? <h3>{title}</h3> : <h2>{title}</h2>}</summary>
      {assumptions?.length ? (
        <SortableTable
          caption={title}
          columns={[
            {
              id: "what",
              title: t.what,
              cell: (row) => <span lang="en">{row.what}</span>,
              value: (row) => row.what,
            },
            {
              id: "value",
              title: t.value,
              cell: (row) => <span lang="en">{String(row.value ?? "–")}</span>,
            },
            { id: "basis", title: t.why, cell: (row) => <span lang="en">{row.basis}</span> },
          ]}
          rows={assumptions.map((entry, index) => ({ ...entry, key: String(index) }))}
          rowKey={(row) => row.key}
        />
      ) : (
        <p>{assumptions ? t.nothingAssumed : t.notKept}</p>
      )}
    </details>
  );
}

export function RawProvenance(props: { provenance: unknown }) {
  return (
    <details>
      <summary>{texts().common.basis.raw}</summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keys. */}
      <pre tabIndex={0}>{JSON.stringify(props.provenance, null, 2)}</pre>
    </details>
  );
}

/** Among which plans something is proven. */
export function Scope(props: { lines: readonly string[] }) {
  if (props.lines.length === 0) {
    return null;
  }
  return (
    <>
      <h3>{texts().common.basis.scope}</h3>
      <ul>
        {props.lines.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
    </>
  );
}
