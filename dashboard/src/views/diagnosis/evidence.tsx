import type { Evidence } from "../../api/types";
import { SortableTable } from "../../components/sortable-table";
import { texts } from "../../i18n";
import { diagnosisWord, quantityText } from "./words";

/** The numbers that speak for or against something; nothing where there are none. */
export function EvidenceTable(props: { evidence: readonly Evidence[]; of: string }) {
  const t = texts().diagnosis;
  if (props.evidence.length === 0) {
    return null;
  }
  return (
    <SortableTable<Evidence>
      caption={t.evidenceOf(props.of)}
      rows={props.evidence}
      rowKey={(row) => `${row.what} ${row.stage} ${row.device}`}
      columns={[
        {
          id: "what",
          title: t.what,
          cell: (row) => (
            <>
              <span lang="en">{row.what}</span>
              <Where row={row} />
            </>
          ),
        },
        {
          id: "value",
          title: t.value,
          numeric: true,
          cell: (row) => (
            <span lang={typeof row.value === "string" ? "en" : undefined}>
              {quantityText(row.value, row.unit)}
            </span>
          ),
        },
        {
          id: "threshold",
          title: t.threshold,
          numeric: true,
          cell: (row) => (row.threshold === null ? "–" : quantityText(row.threshold, row.unit)),
        },
        {
          id: "speaks",
          title: t.speaks,
          cell: (row) => diagnosisWord("speaks", row.speaks),
        },
        {
          id: "rule",
          title: t.rule,
          cell: (row) => (
            <span lang="en">
              {row.rule} <span class="fact-note">{row.source}</span>
            </span>
          ),
        },
      ]}
    />
  );
}

function Where(props: { row: Evidence }) {
  const t = texts().diagnosis;
  const { stage, device } = props.row;
  const places = [
    stage === null ? null : t.stage(stage),
    device === null ? null : t.device(device),
  ].filter((place) => place !== null);
  return places.length === 0 ? null : <span class="fact-note">{places.join(", ")}</span>;
}
