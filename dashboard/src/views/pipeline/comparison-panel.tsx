import { useMemo } from "preact/hooks";
import { Chart } from "../../charts/chart";
import { barChartHeight } from "../../charts/time-bars";
import { type Column, measured, SortableTable } from "../../components/sortable-table";
import { number, percent } from "../../format";
import { texts } from "../../i18n";
import { comparisonReason, serviceName } from "../../i18n/service-text";
import { chartColours, isDark } from "../../palette";
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
      <p class="faint">
        {t.legend} {t.split}
      </p>
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
  const share = (
    id: string,
    title: string,
    value: (row: Contender) => number | null,
  ): Column<Contender> => ({
    id,
    title,
    value,
    numeric: true,
    cell: (row) => {
      const part = value(row);
      return part === null ? "–" : percent(part, 1);
    },
  });
  return [
    { id: "name", title: t.schedule, cell: nameCell, value: (row) => row.name },
    {
      id: "placement",
      title: t.placement,
      cell: (row) => (row.placement ? serviceName("placement", row.placement) : "–"),
      value: (row) => row.placement,
    },
    measured(
      "time",
      "objective",
      props.isSteadySpan ? t.steadySpan : t.makespan,
      (row) => row.objectiveNs,
    ),
    share("slower", t.slower, (row) => row.slowerBy),
    share("compute", t.compute, (row) => row.split?.compute ?? null),
    share("epilogue", t.epilogue, (row) => row.split?.epilogue ?? null),
    share("idle", t.idle, (row) => row.split?.idle ?? null),
    share("bubble", t.bubble, (row) => row.bubbleRatio),
    measured("bytes", "peak", t.peak, (row) => row.peakBytes),
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
      <span class="faint small">{comparisonReason(row)}</span>
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
