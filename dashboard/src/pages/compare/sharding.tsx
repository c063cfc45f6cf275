/** Two sharding plans side by side. */

import { useMemo } from "preact/hooks";
import type { ResultDocument } from "../../api/types";
import { type Column, SortableTable } from "../../components/sortable-table";
import { writerOf } from "../../format";
import { texts } from "../../i18n";
import {
  bytesFigure,
  type Figure,
  FiguresTable,
  secondsFigure,
  shareFigure,
  textFigure,
  timeFigure,
} from "./figures";
import {
  type OperatorPair,
  type OperatorPlan,
  type ShardingDifference,
  shardingDifference,
  stagePlans,
  sumOf,
} from "./sharding-diff";

interface Props {
  a: ResultDocument;
  b: ResultDocument;
}

export function ShardingComparison(props: Props) {
  const t = texts().compare;
  const difference = useMemo(() => shardingDifference(props.a, props.b), [props.a, props.b]);
  return (
    <>
      <section class="panel">
        <h2>{t.summary}</h2>
        <p>{summary(difference)}</p>
        <OnlyIn side={t.a} pairs={difference.onlyInA} />
        <OnlyIn side={t.b} pairs={difference.onlyInB} />
      </section>
      <FiguresTable title={t.facts.title} figures={figures(props)} />
      <section class="panel">
        <h2>{t.sharding.operators}</h2>
        {difference.changed.length === 0 ? (
          <p>{difference.alike > 0 ? t.sharding.none : t.sharding.nothingShared}</p>
        ) : (
          <>
            <p class="faint">{t.sharding.bytesNote}</p>
            <SortableTable
              caption={t.sharding.operators}
              columns={columns(difference.changed)}
              rows={difference.changed}
              rowKey={(row) => row.key}
            />
            <p class="faint">{t.sharding.alike(difference.alike)}</p>
          </>
        )}
      </section>
    </>
  );
}

function OnlyIn(props: { side: string; pairs: readonly OperatorPair[] }) {
  const names = props.pairs.map((pair) => pair.name).join(", ");
  return names === "" ? null : <p>{texts().compare.sharding.onlyIn(props.side, names)}</p>;
}

function summary(difference: ShardingDifference): string {
  const t = texts().compare.sharding;
  const inBoth = difference.changed.length + difference.alike;
  return inBoth === 0 ? t.nothingShared : t.summary(difference.changed.length, inBoth);
}

function columns(rows: readonly OperatorPair[]): Column<OperatorPair>[] {
  const t = texts().compare;
  const size = (
    id: string,
    title: string,
    value: (operator: OperatorPlan | null) => number | undefined,
  ): Column<OperatorPair> => {
    const write = writerOf(
      "bytes",
      rows.flatMap((row) => [value(row.a), value(row.b)]),
    );
    const text = (size: number | undefined) => (size === undefined ? "–" : write(size));
    return {
      id,
      title,
      numeric: true,
      cell: (row) => `${text(value(row.a))} → ${text(value(row.b))}`,
      value: (row) => (value(row.b) ?? 0) - (value(row.a) ?? 0),
    };
  };
  return [
    { id: "stage", title: t.sharding.stage, cell: (row) => row.stage, value: (row) => row.stage },
    { id: "name", title: t.sharding.operator, cell: (row) => row.name, value: (row) => row.name },
    {
      id: "a",
      title: t.sharding.strategy(t.a),
      cell: (row) => <code>{row.a?.strategy}</code>,
      value: (row) => row.a?.strategy ?? null,
    },
    {
      id: "b",
      title: t.sharding.strategy(t.b),
      cell: (row) => <code>{row.b?.strategy}</code>,
      value: (row) => row.b?.strategy ?? null,
    },
    size("redundant", t.sharding.redundant, (operator) => operator?.redundant_bytes),
    size("communication", t.sharding.communication, (operator) => operator?.communication_bytes),
    size("memory", t.sharding.memory, (operator) => operator?.memory_bytes),
  ];
}

function figures(props: Props): Figure[] {
  const t = texts().compare;
  const [a, b] = [stagePlans(props.a), stagePlans(props.b)];
  const [pa, pb] = [props.a.provenance ?? {}, props.b.provenance ?? {}];
  return [
    bytesFigure(t.sharding.objective, sumOf(a, "objective"), sumOf(b, "objective")),
    bytesFigure(t.sharding.redundant, sumOf(a, "redundant_bytes"), sumOf(b, "redundant_bytes")),
    bytesFigure(
      t.sharding.communication,
      sumOf(a, "communication_bytes"),
      sumOf(b, "communication_bytes"),
    ),
    bytesFigure(t.sharding.resharding, sumOf(a, "resharding_bytes"), sumOf(b, "resharding_bytes")),
    bytesFigure(t.sharding.memory, sumOf(a, "memory_bytes"), sumOf(b, "memory_bytes")),
    bytesFigure(
      t.sharding.peak,
      sumOf(a, "predicted_peak_bytes"),
      sumOf(b, "predicted_peak_bytes"),
    ),
    timeFigure(t.sharding.step, sumOf(a, "predicted_step_ns"), sumOf(b, "predicted_step_ns")),
    shareFigure(t.facts.gap, props.a.certificate?.gap, props.b.certificate?.gap),
    textFigure(t.facts.devices, settingOf(pa, "devices"), settingOf(pb, "devices")),
    textFigure("alpha", settingOf(pa, "alphas"), settingOf(pb, "alphas")),
    textFigure(t.facts.engine, pa.engine, pb.engine),
    secondsFigure(t.facts.solveTime, pa.solve_seconds, pb.solve_seconds),
  ];
}

/** A list stands for a sweep, whose first weight is the plan's. */
function settingOf(provenance: ResultDocument, name: string): string | undefined {
  const value = provenance.settings?.[name];
  const own = Array.isArray(value) ? value[0] : value;
  return own === undefined || own === null ? undefined : String(own);
}
