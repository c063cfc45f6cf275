import { useMemo } from "preact/hooks";
import { BarChart } from "../../charts/bar-chart";
import { type Column, measured, SortableTable } from "../../components/sortable-table";
import { number } from "../../format";
import { texts } from "../../i18n";
import { chartColours, isDark } from "../../palette";
import { SplitBadge } from "./glyph";
import type { OperatorRow } from "./model";

const MOST_BARS = 32;

/** What each operator keeps and sends, as bars and as a table. */
export function Operators(props: {
  operators: readonly OperatorRow[];
  onSelect: (index: number) => void;
}) {
  const t = texts().sharding.operators;
  const shown = useMemo(() => largest(props.operators, MOST_BARS), [props.operators]);
  const charts = useMemo(
    () =>
      [
        { title: t.memory, value: (row: OperatorRow) => row.memoryBytes },
        { title: t.sent, value: (row: OperatorRow) => sentBytes(row) },
        { title: t.redundant, value: (row: OperatorRow) => row.redundantBytes },
      ].map(({ title, value }) => ({
        title,
        bars: {
          categories: shown.map((row) => row.name),
          series: [{ name: title, values: shown.map(value) }],
          measure: "bytes" as const,
        },
      })),
    [shown, t],
  );
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      {shown.length < props.operators.length && (
        <p class="faint">{t.largest(shown.length, props.operators.length)}</p>
      )}
      <div class="grid">
        {charts.map(({ title, bars }) => (
          <BarChart key={title} title={title} label={`${title}: ${t.chart}`} bars={bars} />
        ))}
      </div>
      <SortableTable
        caption={t.table}
        columns={columnsOf(props.onSelect)}
        rows={props.operators}
        rowKey={(row) => String(row.index)}
      />
    </section>
  );
}

/** The operators that keep or send most, in the order of the computation. */
export function largest(operators: readonly OperatorRow[], count: number): OperatorRow[] {
  const weight = (row: OperatorRow) => Math.max(row.memoryBytes, sentBytes(row));
  return [...operators]
    .sort((a, b) => weight(b) - weight(a))
    .slice(0, count)
    .sort((a, b) => a.index - b.index);
}

function sentBytes(row: OperatorRow): number {
  return row.communicationBytes + row.reshardingBytes;
}

function columnsOf(onSelect: (index: number) => void): Column<OperatorRow>[] {
  const t = texts().sharding;
  const colours = chartColours(isDark.value);
  return [
    {
      id: "name",
      title: t.operators.operator,
      cell: (row) => (
        <button type="button" class="quiet" onClick={() => onSelect(row.index)}>
          {row.name}
        </button>
      ),
      value: (row) => row.name,
    },
    {
      id: "kind",
      title: t.operators.kind,
      cell: (row) => row.kind ?? "–",
      value: (row) => row.kind,
    },
    {
      id: "layers",
      title: t.operators.layers,
      cell: (row) => number(row.layers),
      value: (row) => row.layers,
      numeric: true,
    },
    {
      id: "split",
      title: t.operators.split,
      cell: (row) => <SplitBadge split={row.split} strategy={row.strategy} colours={colours} />,
      value: (row) => row.strategy,
    },
    measured("bytes", "memory", t.operators.memory, (row) => row.memoryBytes),
    measured("bytes", "communication", t.facts.communication, (row) => row.communicationBytes),
    measured("bytes", "resharding", t.facts.resharding, (row) => row.reshardingBytes),
    measured("bytes", "redundant", t.facts.redundant, (row) => row.redundantBytes),
  ];
}
