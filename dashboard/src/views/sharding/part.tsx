import { useMemo, useState } from "preact/hooks";
import { texts } from "../../i18n";
import { chartColours, isDark } from "../../palette";
import { Baselines } from "./baselines";
import { CertificatePanel } from "./certificate";
import { PlanFacts } from "./facts";
import { Front } from "./front";
import { kindColour } from "./glyph";
import { OperatorGraph } from "./graph";
import { edgeRows, operatorRows, type Planned } from "./model";
import { OperatorDetail } from "./operator-detail";
import { OperatorList } from "./operator-list";
import { Operators } from "./operators";
import { SPLIT_KINDS, splitKind } from "./split";

/** The plan of one graph on one group of devices. */
export function PlanPart(props: { part: Planned }) {
  const { part } = props;
  const t = texts().sharding.graph;
  const operators = useMemo(() => operatorRows(part), [part]);
  const edges = useMemo(() => edgeRows(part), [part]);
  const [selected, setSelected] = useState<number | null>(null);
  // Choosing an operator changes nothing below its details.
  const rest = useMemo(
    () => (
      <>
        <Operators operators={operators} onSelect={setSelected} />
        <Front part={part} />
        <Baselines part={part} />
        {part.certificate && <CertificatePanel certificate={part.certificate} />}
      </>
    ),
    [part, operators],
  );
  return (
    <>
      <section class="panel">
        <PlanFacts part={part} />
      </section>
      <section class="panel">
        <h2>{t.title}</h2>
        <div class="shard-columns">
          <OperatorGraph
            operators={operators}
            edges={edges}
            selected={selected}
            onSelect={setSelected}
          />
          <OperatorList operators={operators} selected={selected} onSelect={setSelected} />
        </div>
        <Legend
          kinds={new Set(operators.flatMap((one) => (one.split ? [splitKind(one.split)] : [])))}
        />
        <OperatorDetail part={part} operators={operators} edges={edges} selected={selected} />
      </section>
      {rest}
    </>
  );
}

function Legend(props: { kinds: ReadonlySet<string> }) {
  const t = texts().sharding.graph;
  const colours = chartColours(isDark.value);
  return (
    <details class="shard-legend" open>
      <summary>{t.legend}</summary>
      <ul class="row">
        {SPLIT_KINDS.filter((kind) => props.kinds.has(kind)).map((kind) => (
          <li key={kind}>
            <span class="shard-swatch" style={{ background: kindColour(kind, colours) }} />
            {kind} – {t.kinds[kind]}
          </li>
        ))}
        <li>{t.sequence}</li>
      </ul>
      <p class="faint">
        {t.glyph} {t.lines}
      </p>
    </details>
  );
}
