/** Two training plans side by side: the plan that each chose. */

import { useMemo, useState } from "preact/hooks";
import type { ResultDocument } from "../../api/types";
import { type Column, SortableTable } from "../../components/sortable-table";
import { texts } from "../../i18n";
import {
  bytesFigure,
  countFigure,
  type Figure,
  FiguresTable,
  secondsFigure,
  shareFigure,
  textFigure,
  timeFigure,
} from "./figures";
import {
  bestPlan,
  configurationPairs,
  type FieldPair,
  type RankedPlan,
  stepParts,
} from "./training-diff";

interface Props {
  a: ResultDocument;
  b: ResultDocument;
}

export function TrainingComparison(props: Props) {
  const t = texts().compare;
  const a = useMemo(() => bestPlan(props.a), [props.a]);
  const b = useMemo(() => bestPlan(props.b), [props.b]);
  const pairs = useMemo(() => configurationPairs(a, b), [a, b]);
  const differing = pairs.filter((pair) => pair.differs).length;
  return (
    <>
      <section class="panel">
        <h2>{t.summary}</h2>
        <p>{differing === 0 ? t.training.allSame : t.training.summary(differing)}</p>
      </section>
      <FiguresTable title={t.facts.title} figures={figures(props, a, b)} />
      <Configuration pairs={pairs} />
      <FiguresTable
        title={t.training.parts}
        figures={stepParts(a, b).map(({ part, aNs, bNs }) =>
          timeFigure(t.training.partNames[part] ?? part, aNs, bNs),
        )}
      />
    </>
  );
}

function Configuration(props: { pairs: readonly FieldPair[] }) {
  const t = texts().compare;
  const [onlyDifferent, setOnlyDifferent] = useState(false);
  const rows = onlyDifferent ? props.pairs.filter((pair) => pair.differs) : props.pairs;
  const columns: Column<FieldPair>[] = [
    { id: "field", title: t.training.field, cell: (row) => <code>{row.field}</code> },
    { id: "a", title: t.a, cell: (row) => row.a ?? "–" },
    { id: "b", title: t.b, cell: (row) => row.b ?? "–" },
    {
      id: "differs",
      title: t.training.difference,
      cell: (row) => (row.differs ? `≠ ${t.facts.differs}` : t.facts.same),
      value: (row) => !row.differs,
    },
  ];
  return (
    <section class="panel">
      <div class="row">
        <h2>{t.training.configuration}</h2>
        <label>
          <input
            type="checkbox"
            checked={onlyDifferent}
            onChange={(event) => setOnlyDifferent(event.currentTarget.checked)}
          />{" "}
          {t.training.onlyDifferent}
        </label>
      </div>
      <SortableTable
        caption={t.training.configuration}
        columns={columns}
        rows={rows}
        rowKey={(row) => row.field}
        rowClass={(row) => (row.differs ? "row-differs" : "")}
      />
    </section>
  );
}

function figures(props: Props, a: RankedPlan | null, b: RankedPlan | null): Figure[] {
  const t = texts().compare;
  const { a: left, b: right } = props;
  const [pa, pb] = [left.provenance ?? {}, right.provenance ?? {}];
  return [
    timeFigure(t.training.step, stepOf(left, a), stepOf(right, b)),
    timeFigure(t.facts.bound, left.certificate?.lower_bound_ns, right.certificate?.lower_bound_ns),
    shareFigure(t.facts.gap, left.certificate?.gap, right.certificate?.gap),
    countFigure(t.training.tokens, a?.tokens_per_s, b?.tokens_per_s),
    shareFigure(t.training.mfu, a?.mfu, b?.mfu),
    bytesFigure(t.training.peak, a?.peak_bytes, b?.peak_bytes),
    bytesFigure(t.training.headroom, a?.headroom_bytes, b?.headroom_bytes),
    countFigure(t.training.gpus, a?.devices, b?.devices),
    textFigure(t.facts.engine, pa.engine, pb.engine),
    secondsFigure(t.facts.solveTime, pa.solve_seconds, pb.solve_seconds),
  ];
}

/** The best schedule's step where one was solved, else the predicted one. */
function stepOf(result: ResultDocument, plan: RankedPlan | null): number | null {
  return result.best?.step_time_ns ?? plan?.step_time_ns ?? null;
}
