import { useMemo } from "preact/hooks";
import { type Column, measured, SortableTable } from "../../components/sortable-table";
import { bytes, number } from "../../format";
import { texts } from "../../i18n";
import { chartColours, isDark } from "../../palette";
import { SplitBadge } from "./glyph";
import {
  type EdgeRow,
  type OperatorRow,
  type Planned,
  type StrategyRow,
  strategyRows,
} from "./model";
import { splitOf } from "./split";
import type { Explanation } from "./types";

interface Props {
  part: Planned;
  operators: readonly OperatorRow[];
  edges: readonly EdgeRow[];
  selected: number | null;
}

/** The chosen operator: all its strategies, and the tensors that come and go. */
export function OperatorDetail(props: Props) {
  const t = texts().sharding.operator;
  const operator = props.selected === null ? undefined : props.operators[props.selected];
  const rows = useMemo(
    () => (operator ? strategyRows(props.part, operator.index) : []),
    [props.part, operator],
  );
  if (!operator) {
    return <p class="faint">{t.choose}</p>;
  }
  const arriving = props.edges.filter((edge) => edge.to === operator.index);
  const leaving = props.edges.filter((edge) => edge.from === operator.index);
  return (
    <section class="shard-detail" aria-live="polite">
      <h3>{t.title(operator.name)}</h3>
      <p class="row">
        <SplitBadge
          split={operator.split}
          strategy={operator.strategy}
          colours={chartColours(isDark.value)}
        />
        <code>{operator.strategy}</code>
        {operator.kind && (
          <span class="faint">
            {t.kind}: {operator.kind}
          </span>
        )}
        <span class="faint">
          {t.layers}: {number(operator.layers)}
        </span>
      </p>
      <Passages title={t.incoming} edges={arriving} operators={props.operators} isArriving />
      <Passages title={t.outgoing} edges={leaving} operators={props.operators} isArriving={false} />
      <p class="faint">{t.strategiesHelp(rows.length)}</p>
      <SortableTable
        caption={t.strategies}
        columns={strategyColumns(rows)}
        rows={rows}
        rowKey={(row) => String(row.index)}
        rowClass={(row) => (row.isChosen ? "is-marked" : "")}
        sortedBy="difference"
      />
    </section>
  );
}

function Passages(props: {
  title: string;
  edges: readonly EdgeRow[];
  operators: readonly OperatorRow[];
  isArriving: boolean;
}) {
  const t = texts().sharding;
  if (props.edges.length === 0) {
    return null;
  }
  return (
    <p>
      <span class="faint">{props.title}: </span>
      {props.edges.map((edge, place) => {
        const other = props.operators[props.isArriving ? edge.from : edge.to];
        return (
          <span key={edge.index}>
            {place > 0 && ", "}
            {other?.name}
            {edge.isToNextLayer && ` (${t.graph.toNextLayer})`} {bytes(edge.bytes)}
          </span>
        );
      })}
    </p>
  );
}

function strategyColumns(rows: readonly StrategyRow[]): Column<StrategyRow>[] {
  const t = texts().sharding;
  const colours = chartColours(isDark.value);
  const columns: Column<StrategyRow>[] = [
    {
      id: "strategy",
      title: t.operator.strategy,
      cell: (row) => (
        <span class="row">
          <SplitBadge split={splitOf(row.name)} strategy={row.name} colours={colours} />
          {row.isChosen && <span class="badge badge-succeeded">✓ {t.operator.chosen}</span>}
        </span>
      ),
      value: (row) => row.name,
    },
    {
      ...measured<StrategyRow>(
        "bytes",
        "difference",
        t.operator.difference,
        (row) => row.objectiveDifference,
      ),
      cell: (row, write) => (row.isChosen ? "–" : signed(row.objectiveDifference, write)),
    },
    measured("bytes", "redundant", t.facts.redundant, (row) => row.redundantBytes),
    measured("bytes", "communication", t.facts.communication, (row) => row.communicationBytes),
    measured("bytes", "resharding", t.facts.resharding, (row) => row.reshardingBytes),
    measured("bytes", "memory", t.operators.memory, (row) => row.memoryBytes),
  ];
  if (rows.some((row) => row.explanation !== null)) {
    columns.push({
      id: "why",
      title: t.operator.why,
      cell: (row) => row.explanation && <Why explanation={row.explanation} />,
    });
  }
  return columns;
}

function Why(props: { explanation: Explanation }) {
  const t = texts().sharding.operator;
  const { explanation } = props;
  const difference = explanation.objective_difference;
  return (
    <span>
      {explanation.reason}
      {explanation.proven && ` (${t.provenReason})`}
      {difference !== undefined && (
        <span class="faint">{` – ${t.more(signed(difference, bytes))}`}</span>
      )}
    </span>
  );
}

/** A difference with its sign. */
export function signed(difference: number, write: (value: number) => string): string {
  return difference > 0 ? `+${write(difference)}` : write(difference);
}
