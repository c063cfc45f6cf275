/** How a solve gets on: figures, best and bound over time, and its steps as a table. */

import { useMemo, useState } from "preact/hooks";
import type { JobView, ProgressStep } from "../../api/types";
import { Chart } from "../../charts/chart";
import { type Column, SortableTable } from "../../components/sortable-table";
import { duration, percent } from "../../format";
import { type Messages, texts } from "../../i18n";
import { phaseName } from "../../i18n/service-text";
import { now } from "../../live/clock";
import { objectiveOf, objectiveText, spentSeconds } from "../../live/objective";
import type { OneJob } from "../../live/one-job";
import { chartColours, isDark } from "../../palette";
import { Fact } from "./facts";
import { traceOf, traceOption } from "./trace";

const CHART_HEIGHT = 260;
/** The newest steps: tables of thousands of rows help nobody. */
const MOST_ROWS = 300;

/** Of a job that waits or runs. */
export function LiveProgress(props: { store: OneJob; job: JobView }) {
  const { store, job } = props;
  const t = texts().job.progress;
  const spentS = spentSeconds(job, store.seen.value?.at ?? now.value, now.value);
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      <Figures job={job} spentS={spentS} />
      <Trace kind={job.kind} steps={store.steps.value} untilS={spentS} empty={t.waiting} />
      <Steps kind={job.kind} steps={store.steps.value} />
    </section>
  );
}

/** Of a job that is over. */
export function PastProgress(props: { job: JobView; steps: readonly ProgressStep[] }) {
  const { job, steps } = props;
  const t = texts().job.progress;
  return (
    <details class="panel">
      <summary>
        <h2>{t.title}</h2>
      </summary>
      <Trace kind={job.kind} steps={steps} untilS={job.spent_s} empty={t.nothing} />
      <Steps kind={job.kind} steps={steps} />
    </details>
  );
}

function Figures(props: { job: JobView; spentS: number }) {
  const { job, spentS } = props;
  const t = texts().job.progress;
  const { best, bound, unit } = objectiveOf(job.kind, job);
  const told = (value: number | null) =>
    value === null ? <span class="faint">{t.noneYet}</span> : objectiveText(value, unit);
  const shownS = Math.min(spentS, job.time_limit_s);
  return (
    <dl class="facts live-figures">
      <Fact name={t.best}>{told(best)}</Fact>
      <Fact name={t.bound}>{told(bound)}</Fact>
      <Fact name={t.gap}>
        {job.gap === null ? <span class="faint">{t.noneYet}</span> : percent(job.gap)}
      </Fact>
      <Fact name={t.phase}>{job.phase ? phaseName(job.phase) : "–"}</Fact>
      <Fact name={t.elapsed}>
        {seconds(spentS)} <span class="faint">{t.ofLimit(seconds(job.time_limit_s))}</span>
        <progress class="time-bar" aria-label={t.timeBar} max={job.time_limit_s} value={shownS} />
      </Fact>
    </dl>
  );
}

function Trace(props: {
  kind: string;
  steps: readonly ProgressStep[];
  untilS: number;
  empty: string;
}) {
  const t = texts().job.progress;
  const colours = chartColours(isDark.value);
  const trace = traceOf(props.kind, props.steps, props.untilS);
  if (trace.points.length === 0) {
    return <p class="faint">{props.empty}</p>;
  }
  const look = {
    best: colours.accent,
    bound: colours.limit,
    grid: colours.grid,
    faintText: colours.faintText,
  };
  return (
    <>
      <p class="faint">{t.steady}</p>
      <Chart label={t.chart} option={traceOption(trace, t, look)} height={CHART_HEIGHT} />
    </>
  );
}

function Steps(props: { kind: string; steps: readonly ProgressStep[] }) {
  const messages = texts();
  const t = messages.job.progress;
  const [isOpen, setOpen] = useState(false);
  const columns = useMemo(() => columnsOf(props.kind, messages), [props.kind, messages]);
  const rows = useMemo(() => props.steps.slice(-MOST_ROWS).reverse(), [props.steps]);
  if (rows.length === 0) {
    return null;
  }
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{t.summary(rows.length)}</summary>
      {isOpen && (
        <SortableTable
          caption={t.title}
          columns={columns}
          rows={rows}
          rowKey={(step) => String(step.seq)}
        />
      )}
    </details>
  );
}

function columnsOf(kind: string, { common, job }: Messages): Column<ProgressStep>[] {
  const t = job.progress;
  const figure = (part: "best" | "bound") => (step: ProgressStep) => {
    const reached = objectiveOf(kind, step);
    const value = reached[part];
    return value === null ? "–" : objectiveText(value, reached.unit);
  };
  return [
    { id: "at", title: t.at, numeric: true, cell: (step) => seconds(step.spent_s) },
    { id: "state", title: t.state, cell: (step) => common.states[step.state] },
    { id: "phase", title: t.phase, cell: (step) => (step.phase ? phaseName(step.phase) : "–") },
    { id: "best", title: t.best, numeric: true, cell: figure("best") },
    { id: "bound", title: t.bound, numeric: true, cell: figure("bound") },
    {
      id: "gap",
      title: t.gap,
      numeric: true,
      cell: (step) => (step.gap === null ? "–" : percent(step.gap)),
    },
    { id: "detail", title: t.detail, cell: (step) => step.detail ?? "" },
  ];
}

function seconds(value: number): string {
  return duration(Math.round(value * 10) * 1e8);
}
