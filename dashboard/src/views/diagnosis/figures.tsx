import { SortableTable } from "../../components/sortable-table";
import { bytes, duration, number } from "../../format";
import { texts } from "../../i18n";
import { diagnosisWord } from "./words";

const DIGITS = 3;

interface Row {
  index: number;
  row: Readonly<Record<string, unknown>>;
}

/** Further numbers of a remedy: rows whose names say what they are, and in which unit. */
export function FiguresTable(props: { rows: readonly Row["row"][] }) {
  const t = texts().diagnosis;
  const names = [...new Set(props.rows.flatMap((row) => Object.keys(row)))];
  return (
    <details>
      <summary>{t.figures}</summary>
      <SortableTable<Row>
        caption={t.figures}
        rows={props.rows.map((row, index) => ({ row, index }))}
        rowKey={({ index }) => String(index)}
        columns={names.map((name) => ({
          id: name,
          title: diagnosisWord("quantity", name),
          cell: ({ row }) => <span lang="en">{figure(name, row[name])}</span>,
        }))}
      />
    </details>
  );
}

function figure(name: string, value: unknown): string {
  if (value === null || value === undefined) {
    return "–";
  }
  if (typeof value !== "number") {
    return typeof value === "string" ? value : JSON.stringify(value);
  }
  if (name.endsWith("_ns")) {
    return duration(value);
  }
  return name.endsWith("_bytes") ? bytes(value) : number(value, DIGITS, 0);
}
