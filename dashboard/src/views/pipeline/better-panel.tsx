import { useMemo } from "preact/hooks";
import { Chart } from "../../charts/chart";
import { barChartHeight } from "../../charts/time-bars";
import { type Column, measured, SortableTable } from "../../components/sortable-table";
import { number, percent } from "../../format";
import { texts } from "../../i18n";
import { serviceName } from "../../i18n/service-text";
import { chartColours, isDark } from "../../palette";
import { boundKind, gapOf, idleBounds, sortedBounds, verdict, waysToClose } from "./bounds";
import { boundsOption } from "./bounds-chart";
import { objectiveNs, timeWriter } from "./plan-facts";
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
  const { lower_bound_ns: bound, bound_name: boundName } = result.certificate;
  const name = boundName ? serviceName("bound", boundName) : "–";
  const value = objectiveNs(result);
  const write = timeWriter(result);
  switch (verdict(result)) {
    case "proven":
      return <p>{t.proven(write(bound ?? value ?? 0), name)}</p>;
    case "gap":
      return (
        <>
          <p>{t.gap(percent(gapOf(result) ?? 0), write(value ?? 0), write(bound ?? 0), name)}</p>
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
  return typeof limit === "number" ? `${number(limit, 1, 0)} s` : texts().common.unknown;
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
    {
      id: "name",
      title: t.name,
      cell: (row) => serviceName("bound", row.name),
      value: (row) => row.name,
    },
    measured("time", "value", t.value, (row) => row.value_ns),
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
        <p class="faint">
          {t.idleBounds(idle.map((bound) => serviceName("bound", bound.name)).join(", "))}
        </p>
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
      cell: (row) => {
        const name = serviceName("placement", row.placement);
        return row.placement === own ? `▶ ${name}` : name;
      },
      value: (row) => row.placement,
    },
    {
      ...measured<PlacementBound>(
        "time",
        "bound",
        t.placementBound,
        (row) => row.lower_bound_ns,
        "time",
      ),
      cell: (row, write) => (
        <>
          {row.lower_bound_ns === null ? "–" : write(row.lower_bound_ns)}
          {best !== null && (row.lower_bound_ns ?? 0) > best && (
            <div class="faint small">{t.placementOut}</div>
          )}
        </>
      ),
    },
    measured("time", "best", t.placementBest, (row) => row.best_ns, "time"),
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
