import { useMemo } from "preact/hooks";
import { Chart } from "../../charts/chart";
import { type Column, SortableTable } from "../../components/sortable-table";
import { milliseconds, percent } from "../../format";
import { texts } from "../../i18n";
import { chartColours, isDark } from "../../palette";
import { barChartHeight } from "./bar-option";
import { boundKind, gapOf, idleBounds, sortedBounds, verdict, waysToClose } from "./bounds";
import { boundsOption } from "./bounds-chart";
import { objectiveNs } from "./plan-facts";
import type { Bound, Certificate, PipelineResult } from "./types";

type PlacementBound = NonNullable<Certificate["placements"]>[number];

/** What keeps the plan from being better: the bounds, and what would close the gap. */
export function BetterPanel(props: { result: PipelineResult }) {
  const t = texts().pipeline.better;
  const { result } = props;
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      <Verdict result={result} />
      <BoundsChart result={result} />
      <BoundsTable result={result} />
      <Placements result={result} />
    </section>
  );
}

function Verdict(props: { result: PipelineResult }) {
  const t = texts().pipeline.better;
  const { result } = props;
  const { lower_bound_ns: bound, bound_name: name } = result.certificate;
  const value = objectiveNs(result);
  switch (verdict(result)) {
    case "proven":
      return <p>{t.proven(milliseconds(bound ?? value ?? 0), name ?? "–")}</p>;
    case "gap":
      return (
        <>
          <p>
            {t.gap(
              percent(gapOf(result) ?? 0),
              milliseconds(value ?? 0),
              milliseconds(bound ?? 0),
              name ?? "–",
            )}
          </p>
          <p>{t.close}</p>
          <ul>
            {waysToClose(result).map((way) => (
              <li key={way}>{way === "closeTime" ? t.closeTime(timeLimit(result)) : t[way]}</li>
            ))}
          </ul>
        </>
      );
    case "noBound":
      return <p>{t.noBound}</p>;
    default:
      return null;
  }
}

function timeLimit(result: PipelineResult): string {
  const limit = result.provenance.options?.time_limit_s;
  return typeof limit === "number" ? `${limit} s` : texts().common.unknown;
}

function BoundsChart(props: { result: PipelineResult }) {
  const t = texts().pipeline.better;
  const dark = isDark.value;
  const bounds = useMemo(() => sortedBounds(props.result), [props.result]);
  const value = objectiveNs(props.result);
  const option = useMemo(
    () => boundsOption(value, bounds, chartColours(dark), t),
    [value, bounds, dark, t],
  );
  if (bounds.length === 0 || value === null) {
    return null;
  }
  return <Chart label={t.chart} option={option} height={barChartHeight(bounds.length + 1)} />;
}

function BoundsTable(props: { result: PipelineResult }) {
  const t = texts().pipeline.better;
  const bounds = sortedBounds(props.result);
  const idle = idleBounds(props.result);
  const value = objectiveNs(props.result);
  if (bounds.length === 0) {
    return null;
  }
  const columns: Column<Bound>[] = [
    { id: "name", title: t.name, cell: (row) => row.name, value: (row) => row.name },
    {
      id: "value",
      title: t.value,
      cell: (row) => milliseconds(row.value_ns),
      value: (row) => row.value_ns,
      numeric: true,
    },
    {
      id: "share",
      title: t.ofPlan,
      cell: (row) => (value ? percent(row.value_ns / value, 1) : "–"),
      numeric: true,
    },
    { id: "counts", title: t.counts, cell: (row) => t.kinds[boundKind(row.name)] },
  ];
  return (
    <>
      <h3>{t.boundsTable}</h3>
      <SortableTable
        caption={t.boundsTable}
        columns={columns}
        rows={bounds}
        rowKey={(row) => row.name}
      />
      {idle.length > 0 && (
        <p class="faint">{t.idleBounds(idle.map((bound) => bound.name).join(", "))}</p>
      )}
    </>
  );
}

function Placements(props: { result: PipelineResult }) {
  const t = texts().pipeline.better;
  const placements = props.result.certificate.placements ?? [];
  if (placements.length < 2) {
    return null;
  }
  const best = objectiveNs(props.result);
  const own = props.result.provenance.placement;
  const columns: Column<PlacementBound>[] = [
    {
      id: "placement",
      title: t.placement,
      cell: (row) => (row.placement === own ? `▶ ${row.placement}` : row.placement),
      value: (row) => row.placement,
    },
    {
      id: "bound",
      title: t.placementBound,
      cell: (row) => (
        <>
          {row.lower_bound_ns === null ? "–" : milliseconds(row.lower_bound_ns)}
          {best !== null && (row.lower_bound_ns ?? 0) > best && (
            <div class="faint small">{t.placementOut}</div>
          )}
        </>
      ),
      value: (row) => row.lower_bound_ns,
      numeric: true,
    },
    {
      id: "best",
      title: t.placementBest,
      cell: (row) => (row.best_ns === null ? "–" : milliseconds(row.best_ns)),
      value: (row) => row.best_ns,
      numeric: true,
    },
  ];
  return (
    <>
      <h3>{t.placements}</h3>
      <SortableTable
        caption={t.placements}
        columns={columns}
        rows={placements}
        rowKey={(row) => row.placement}
      />
    </>
  );
}
