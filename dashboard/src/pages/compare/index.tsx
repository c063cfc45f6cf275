/** Two plans side by side: `#/compare?a=ID&b=ID`. */

import { useMemo } from "preact/hooks";
import { type PlanSource, planSource } from "../../api/source";
import type { Kind } from "../../api/types";
import { StateBadge } from "../../components/state-badge";
import { Failure, Loading } from "../../components/states";
import { texts } from "../../i18n";
import { href, route, setQuery } from "../../route";
import "../../styles/compare.css";
import { useLoad } from "../../use-load";
import { Picker } from "./picker";
import { PipelineComparison } from "./pipeline";
import { ShardingComparison } from "./sharding";
import { TrainingComparison } from "./training";

export type Side = "a" | "b";

export function ComparePage() {
  const t = texts().compare;
  const a = route.value.query.get("a");
  const b = route.value.query.get("b");
  return (
    <>
      <h1>{t.title}</h1>
      {a !== null && b !== null ? <Pair key={`${a} ${b}`} a={a} b={b} /> : <Picker a={a} b={b} />}
    </>
  );
}

function Pair(props: { a: string; b: string }) {
  const t = texts().compare;
  const { a, b } = props;
  const loaded = useLoad(
    (signal) => Promise.all([planSource(a, signal), planSource(b, signal)]),
    [a, b],
  );
  if (loaded.error) {
    return (
      <>
        <Failure error={loaded.error} onRetry={loaded.reload} />
        <ChooseAgain />
      </>
    );
  }
  if (!loaded.value) {
    return <Loading what={t.loading} />;
  }
  const [left, right] = loaded.value;
  return (
    <>
      <Heads a={left} b={right} />
      <Comparison a={left} b={right} />
    </>
  );
}

function Comparison(props: { a: PlanSource; b: PlanSource }) {
  const t = texts();
  const { a, b } = props;
  const kinds = t.common.kinds;
  if (a.job.id === b.job.id) {
    return <p class="banner banner-warning">{t.compare.sameJob}</p>;
  }
  if (a.job.kind !== b.job.kind) {
    const message = t.compare.otherKinds(kinds[a.job.kind as Kind], kinds[b.job.kind as Kind]);
    return <p class="banner banner-warning">{message}</p>;
  }
  const without = [a, b].findIndex((source) => source.result.infeasibility !== undefined);
  if (without >= 0) {
    const side = without === 0 ? t.compare.a : t.compare.b;
    return <p class="banner banner-warning">{t.compare.noPlan(side)}</p>;
  }
  switch (a.job.kind) {
    case "sharding":
      return <ShardingComparison a={a.result} b={b.result} />;
    case "training":
      return <TrainingComparison a={a.result} b={b.result} />;
    default:
      return <PipelineComparison a={a} b={b} />;
  }
}

function Heads(props: { a: PlanSource; b: PlanSource }) {
  const t = texts().compare;
  const { a, b } = props;
  const exchange = () => setQuery({ a: b.job.id, b: a.job.id });
  return (
    <div class="compare-heads">
      <Head side="a" source={a} />
      <button type="button" onClick={exchange} aria-label={t.swap} title={t.swap}>
        ⇄
      </button>
      <Head side="b" source={b} />
    </div>
  );
}

function Head(props: { side: Side; source: PlanSource }) {
  const t = texts();
  const { job } = props.source;
  const name = useMemo(() => job.name ?? job.id, [job]);
  const letter = t.compare[props.side];
  return (
    <section class="panel compare-head">
      <h2>
        <span class="side-mark" aria-hidden="true">
          {letter}
        </span>{" "}
        <a href={href(["jobs", job.id])} aria-label={t.compare.openJob(name)}>
          {name}
        </a>
      </h2>
      <p class="row">
        <StateBadge state={job.state} />
        <span>{t.common.kinds[job.kind as Kind]}</span>
        <code>{job.id.slice(0, 8)}</code>
        <button
          type="button"
          class="quiet"
          onClick={() => setQuery({ [props.side]: undefined, kind: job.kind })}
        >
          {t.compare.other(letter)}
        </button>
      </p>
    </section>
  );
}

function ChooseAgain() {
  const t = texts().compare;
  return (
    <p class="row">
      <button type="button" onClick={() => setQuery({ a: undefined })}>
        {t.other(t.a)}
      </button>
      <button type="button" onClick={() => setQuery({ b: undefined })}>
        {t.other(t.b)}
      </button>
    </p>
  );
}
