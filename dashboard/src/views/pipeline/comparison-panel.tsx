import { useMemo } from "preact/hooks";
import { Chart } from "../../charts/chart";
import { type Column, SortableTable } from "../../components/sortable-table";
import { bytes, milliseconds, number, percent } from "../../format";
import { texts } from "../../i18n";
import { chartColours, isDark } from "../../palette";
import { barChartHeight } from "./bar-option";
import { byObjective, type Contender } from "./comparison";
import { comparisonOption } from "./comparison-chart";

interface Props {
  contenders: readonly Contender[];
  /** Whether the objective is the steady span. */
  isSteadySpan: boolean;
  shown: string;
  /** Show a schedule in the chart above; absent where there is none but the plan's. */
  onShow: ((key: string) => void) | null;
}

/** The plan beside the classic schedules, as bars and as a table. */
export function ComparisonPanel(props: Props) {
  const t = texts().pipeline.comparison;
  if (props.contenders.length < 2) {
    return null;
  }
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      <p class="faint">{t.intro}</p>
      <ComparisonChart {...props} />
      <p class="faint">{t.legend}</p>
      <SortableTable
        caption={t.title}
        columns={columns(props)}
        rows={props.contenders}
        rowKey={(row) => row.key}
        rowClass={(row) => (row.isOurs ? "row-ours" : row.fits ? "" : "row-oom")}
      />
    </section>
  );
}

function ComparisonChart(props: Props) {
  const t = texts().pipeline.comparison;
  const dark = isDark.value;
  const rows = useMemo(() => byObjective(props.contenders), [props.contenders]);
  const option = useMemo(() => comparisonOption(rows, chartColours(dark), t), [rows, dark, t]);
  const label = props.isSteadySpan ? t.chartSpan : t.chart;
  return <Chart label={label} option={option} height={barChartHeight(rows.length)} />;
}

function columns(props: Props): Column<Contender>[] {
  const t = texts().pipeline.comparison;
  return [
    { id: "name", title: t.schedule, cell: nameCell, value: (row) => row.name },
    {
      id: "placement",
      title: t.placement,
      cell: (row) => row.placement ?? "–",
      value: (row) => row.placement,
    },
    {
      id: "objective",
      title: props.isSteadySpan ? t.steadySpan : t.makespan,
      cell: (row) => (row.objectiveNs === null ? "–" : milliseconds(row.objectiveNs)),
      value: (row) => row.objectiveNs,
      numeric: true,
    },
    {
      id: "slower",
      title: t.slower,
      cell: (row) => (row.slowerBy === null ? "–" : percent(row.slowerBy, 1)),
      value: (row) => row.slowerBy,
      numeric: true,
    },
    {
      id: "bubble",
      title: t.bubble,
      cell: (row) => (row.bubbleRatio === null ? "–" : percent(row.bubbleRatio, 1)),
      value: (row) => row.bubbleRatio,
      numeric: true,
    },
    {
      id: "peak",
      title: t.peak,
      cell: (row) => (row.peakBytes === null ? "–" : bytes(row.peakBytes)),
      value: (row) => row.peakBytes,
      numeric: true,
    },
    {
      id: "offloads",
      title: t.offloads,
      cell: (row) => (row.offloads === null ? "–" : number(row.offloads)),
      value: (row) => row.offloads,
      numeric: true,
    },
    { id: "fits", title: t.fits, cell: fitsCell, value: (row) => Number(!row.fits) },
    ...(props.onShow ? [showColumn(props, props.onShow)] : []),
  ];
}

function nameCell(row: Contender) {
  const t = texts().pipeline.comparison;
  return (
    <>
      {row.isOurs && <span aria-hidden="true">▶ </span>}
      {row.name}
      {row.isOurs && <span class="faint"> {t.ours}</span>}
      {row.hypothetical && <div class="faint small">{t.hypothetical}</div>}
    </>
  );
}

function fitsCell(row: Contender) {
  const t = texts();
  if (row.fits) {
    return t.common.yes;
  }
  return (
    <div class="oom-reason">
      {row.objectiveNs !== null && <strong>{t.pipeline.comparison.oom}</strong>}{" "}
      <span class="faint small">{row.reason}</span>
    </div>
  );
}

function showColumn(props: Props, onShow: (key: string) => void): Column<Contender> {
  const t = texts().pipeline.comparison;
  return {
    id: "show",
    title: t.show,
    cell: (row) => {
      if (row.objectiveNs === null) {
        return "–";
      }
      return (
        <button
          type="button"
          class="quiet"
          aria-label={`${row.key === props.shown ? t.shown : t.show}: ${row.name} ${row.placement ?? ""}`}
          aria-pressed={row.key === props.shown}
          onClick={() => onShow(row.key)}
        >
          {row.key === props.shown ? t.shown : t.show}
        </button>
      );
    },
  };
}
