import type { EChartsType } from "echarts/core";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { isWide } from "../../charts/axes";
import { type Axes, AxesChoice } from "../../charts/axes-choice";
import { Chart } from "../../charts/chart";
import { known, yesNo } from "../../components/fact";
import { type Column, measured, SortableTable } from "../../components/sortable-table";
import { number, percent } from "../../format";
import { locale, texts } from "../../i18n";
import { chartColours, isDark } from "../../palette";
import { CandidateDetail } from "./candidate-detail";
import { type Candidate, configurationText, stepped } from "./candidates-data";
import { scatterOption } from "./scatter-option";

const HEIGHT = 420;

/** All plans as points and as rows; choosing one in either place chooses it in the other. */
export function Candidates(props: {
  candidates: readonly Candidate[];
  request: Record<string, unknown> | null;
}) {
  const t = texts().training;
  const { candidates } = props;
  const dark = isDark.value;
  const tag = locale();
  const [selected, setSelected] = useState<string | null>(null);
  const [axes, setAxes] = useState<Axes>(
    isWide(candidates.map((one) => one.figures.step_time_ns)) ? "logarithmic" : "linear",
  );
  const option = useMemo(() => {
    const isLogarithmic = axes === "logarithmic";
    return scatterOption(candidates, selected, isLogarithmic, t.scatter, chartColours(dark));
  }, [candidates, selected, axes, dark, tag, t]);
  const chosen = candidates.find((one) => one.key === selected);
  const table = useRef<HTMLDivElement>(null);
  // A row that is chosen in the chart has to be seen; one that is chosen in the table is seen.
  const fromChart = useRef(false);
  useEffect(() => {
    if (fromChart.current) {
      table.current?.querySelector("tr.is-marked")?.scrollIntoView({ block: "nearest" });
      fromChart.current = false;
    }
  }, [selected]);
  const choose = useRef((key: string) => {
    fromChart.current = true;
    setSelected(key);
  });
  return (
    <section class="panel">
      <h2>{t.candidates.title}</h2>
      <p class="faint">{t.candidates.help}</p>
      <p class="row">
        <AxesChoice axes={axes} onChange={setAxes} />
      </p>
      <Chart
        label={t.scatter.chart}
        option={option}
        height={HEIGHT}
        onReady={(chart) => whenChosen(chart, (key) => choose.current(key))}
      />
      <p class="row">
        <button type="button" onClick={() => setSelected(stepped(candidates, selected, -1))}>
          ← {t.scatter.previous}
        </button>
        <button type="button" onClick={() => setSelected(stepped(candidates, selected, 1))}>
          {t.scatter.next} →
        </button>
        <span aria-live="polite">{chosen ? t.scatter.chosen(nameOf(chosen)) : t.scatter.none}</span>
      </p>
      <div ref={table} class="train-candidates">
        <SortableTable
          caption={t.candidates.table}
          columns={columnsOf(candidates, selected, setSelected)}
          rows={candidates}
          rowKey={(row) => row.key}
          rowClass={(row) => (row.key === selected ? "is-marked" : "")}
          rowDetail={(row) =>
            row.key === selected ? (
              <CandidateDetail candidate={row} request={props.request} />
            ) : null
          }
        />
      </div>
    </section>
  );
}

function nameOf(candidate: Candidate): string {
  const text = configurationText(candidate.figures);
  return candidate.plan ? `${candidate.plan.rank}: ${text}` : text;
}

function whenChosen(chart: EChartsType, choose: (key: string) => void) {
  const onClick = (mark: { data?: unknown }) => {
    const candidate = (mark.data as { candidate?: Candidate } | undefined)?.candidate;
    if (candidate) {
      choose(candidate.key);
    }
  };
  chart.on("click", onClick);
  return () => {
    chart.off("click", onClick);
  };
}

function columnsOf(
  candidates: readonly Candidate[],
  selected: string | null,
  select: (key: string | null) => void,
): Column<Candidate>[] {
  const t = texts().training.candidates;
  const figure = (
    id: string,
    title: string,
    value: (row: Candidate) => number | null,
    format: (value: number) => string = number,
  ): Column<Candidate> => ({
    id,
    title,
    cell: (row) => known(value(row), format) ?? "–",
    value,
    numeric: true,
  });
  const isUsed = (degree: (row: Candidate) => number) =>
    candidates.some((row) => degree(row) !== degree(candidates[0] ?? row) || degree(row) > 1);
  const degrees: Column<Candidate>[] = [
    figure("tp", "TP", (row) => row.figures.tensor_parallel),
    figure("pp", "PP", (row) => row.figures.pipeline_parallel),
    figure("dp", "DP", (row) => row.figures.data_parallel),
    ...(isUsed((row) => row.figures.context_parallel)
      ? [figure("cp", "CP", (row) => row.figures.context_parallel)]
      : []),
    ...(isUsed((row) => row.figures.expert_parallel)
      ? [figure("ep", "EP", (row) => row.figures.expert_parallel)]
      : []),
  ];
  return [
    {
      id: "rank",
      title: t.rank,
      cell: (row) => (
        <Opener
          row={row}
          isOpen={row.key === selected}
          onToggle={() => select(row.key === selected ? null : row.key)}
        />
      ),
      value: (row) => row.plan?.rank ?? null,
    },
    measured("time", "step", t.step, (row) => row.figures.step_time_ns),
    figure("tokens", t.tokens, (row) => row.figures.tokens_per_s),
    figure(
      "mfu",
      t.mfu,
      (row) => row.figures.mfu,
      (value) => percent(value, 1),
    ),
    measured("bytes", "peak", t.peak, (row) => row.figures.peak_bytes, "memory"),
    measured("bytes", "headroom", t.headroom, (row) => row.figures.headroom_bytes, "memory"),
    { id: "fits", title: t.fits, cell: (row) => yesNo(row.fits), value: (row) => row.fits },
    figure("gpus", t.gpus, (row) => row.figures.devices),
    ...degrees,
    figure("microBatch", t.microBatch, (row) => row.figures.micro_batch_size),
    figure("interleaving", t.interleaving, (row) => row.figures.interleaving),
    figure("zero", t.zero, (row) => row.figures.zero_stage),
    {
      id: "recomputation",
      title: t.recomputation,
      cell: (row) => t.recomputations[row.figures.recomputation] ?? row.figures.recomputation,
      value: (row) => row.figures.recomputation,
    },
    {
      id: "offload",
      title: t.offload,
      cell: (row) => (row.figures.offload ? texts().common.yes : texts().common.no),
      value: (row) => row.figures.offload,
    },
  ];
}

function Opener(props: { row: Candidate; isOpen: boolean; onToggle: () => void }) {
  const t = texts().training.candidates;
  const { row, isOpen } = props;
  return (
    <span class="train-rank">
      <button
        type="button"
        class="quiet"
        aria-expanded={isOpen}
        aria-label={t.open(nameOf(row))}
        onClick={props.onToggle}
      >
        {isOpen ? "▾" : "▸"} {row.plan?.rank ?? "–"}
      </button>
      {row.isBest && <span class="badge badge-succeeded">★ {t.best}</span>}
      {row.isPareto && <span class="badge">▲ {t.pareto}</span>}
    </span>
  );
}
