import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { Chart } from "../../charts/chart";
import { number, writerOf } from "../../format";
import { texts } from "../../i18n";
import { serviceName } from "../../i18n/service-text";
import { chartColours, isDark } from "../../palette";
import { foundAt } from "./found";
import { ImprovementsTable, OptionsTable, StepsTable } from "./found-tables";
import { gapOption } from "./gap-chart";
import type { GapPoint, Provenance } from "./types";

const CHART_HEIGHT = 260;

/** How the plan came about: steps, best and bound over time, engine, versions, options. */
export function FoundPanel(props: { provenance: Provenance }) {
  const t = texts().pipeline.found;
  const { provenance } = props;
  const points = provenance.gap_over_time ?? [];
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      <Summary provenance={provenance} />
      {points.length > 0 && (
        <GapChart points={points} untilS={provenance.solve_seconds ?? endOf(points)} />
      )}
      <StepsTable provenance={provenance} />
      <dl class="facts">
        {circumstances(provenance).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <ImprovementsTable provenance={provenance} />
      <OptionsTable provenance={provenance} />
    </section>
  );
}

function Summary(props: { provenance: Provenance }) {
  const t = texts().pipeline.found;
  const { provenance } = props;
  const at = foundAt(provenance);
  const unknown = texts().common.unknown;
  const { stopped_by: stopped } = provenance;
  const stoppedBy = stopped === undefined ? unknown : serviceName("stoppedBy", stopped);
  const from = provenance.started_from;
  return (
    <p>
      {at === null || provenance.found_by === undefined
        ? t.ended(stoppedBy)
        : t.summary(
            serviceName("foundBy", provenance.found_by),
            number(at, 1),
            number(provenance.solve_seconds ?? at, 1),
            stoppedBy,
          )}{" "}
      {from &&
        t.startedFrom(
          serviceName("start", from.kind),
          from.found_by ? serviceName("foundBy", from.found_by) : unknown,
          from.objective_ns === undefined
            ? "–"
            : writerOf("time", [from.objective_ns])(from.objective_ns),
        )}{" "}
      {provenance.ablation === undefined && t.kept}
    </p>
  );
}

function GapChart(props: { points: readonly GapPoint[]; untilS: number }) {
  const t = texts().pipeline.found;
  const dark = isDark.value;
  const option = useMemo(
    () => gapOption(props.points, props.untilS, chartColours(dark), t),
    [props.points, props.untilS, dark, t],
  );
  return <Chart label={t.chart} option={option} height={CHART_HEIGHT} />;
}

function endOf(points: readonly GapPoint[]): number {
  return points[points.length - 1]?.seconds ?? 0;
}

function circumstances(provenance: Provenance): [string, ComponentChildren][] {
  const t = texts().pipeline.found;
  const seconds = (value: number | undefined) =>
    value === undefined ? null : `${number(value, 1)} s`;
  const versions = Object.entries({
    loadmaster: provenance.planner_version,
    ...provenance.packages,
  })
    .filter(([, version]) => version !== undefined)
    .map(([name, version]) => `${name} ${version}`)
    .join(", ");
  const entries: [string, ComponentChildren | null][] = [
    [t.engine, provenance.engine ?? null],
    [t.exact, exactText(provenance)],
    [t.moves, provenance.search_moves === undefined ? null : number(provenance.search_moves)],
    [t.solveTime, seconds(provenance.solve_seconds)],
    [t.queueTime, seconds(provenance.queue_seconds)],
    [t.attempts, provenance.attempts ?? null],
    [t.worker, provenance.worker ?? null],
    [t.versions, versions || null],
  ];
  return entries.filter(([, value]) => value !== null);
}

function exactText(provenance: Provenance): string | null {
  const exact = provenance.exact;
  if (!exact) {
    return null;
  }
  return texts().pipeline.found.exactRun(
    exact.engine,
    serviceName("status", exact.status),
    number(exact.variables ?? 0),
    number(exact.constraints ?? 0),
  );
}
