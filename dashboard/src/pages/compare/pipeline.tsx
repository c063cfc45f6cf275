/** Two pipeline schedules side by side. */

import { useMemo } from "preact/hooks";
import type { PlanSource } from "../../api/source";
import type { Timeline } from "../../api/types";
import { texts } from "../../i18n";
import { serviceName } from "../../i18n/service-text";
import { type Loaded, useLoad } from "../../use-load";
import { gapOf } from "../../views/pipeline/bounds";
import { bubbleRatio, largestPeak, offloadCount } from "../../views/pipeline/plan-facts";
import { type PipelineResult, readResult } from "../../views/pipeline/types";
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
import { GainsPanel } from "./gains-panel";
import { planMoves } from "./moves";
import { MovesPanel } from "./moves-panel";
import { PipelineSummary } from "./pipeline-summary";
import { comparability } from "./problems";
import { Schedules } from "./schedules";

export function PipelineComparison(props: { a: PlanSource; b: PlanSource }) {
  const a = useMemo(() => readResult(props.a.result), [props.a]);
  const b = useMemo(() => readResult(props.b.result), [props.b]);
  const scope = useMemo(() => comparability(a, b), [a, b]);
  const moves = useMemo(
    () =>
      scope.operations && a.problem && a.schedule?.ops && b.schedule?.ops
        ? planMoves(a.problem, a.schedule.ops, b.schedule.ops)
        : null,
    [a, b, scope],
  );
  const left = useTimeline(props.a);
  const right = useTimeline(props.b);
  return (
    <>
      <PipelineSummary
        a={a}
        b={b}
        scope={scope}
        moves={moves}
        timelines={left.value && right.value ? { a: left.value, b: right.value } : null}
      />
      <FiguresTable title={texts().compare.facts.title} figures={figures(a, b)} />
      <Schedules a={left} b={right} names={{ a: nameOf(props.a), b: nameOf(props.b) }} />
      {scope.devices && left.value && right.value && (
        <GainsPanel a={left.value} b={right.value} sharesOnly={!scope.sameWork} />
      )}
      {moves && <MovesPanel moves={moves} />}
    </>
  );
}

function useTimeline(source: PlanSource): Loaded<Timeline> {
  return useLoad((signal) => source.timeline(undefined, signal), [source]);
}

function nameOf(source: PlanSource): string {
  return source.job.name ?? source.job.id;
}

function figures(a: PipelineResult, b: PipelineResult): Figure[] {
  const t = texts();
  const f = t.compare.facts;
  const yesNo = (value: boolean | undefined) =>
    value === undefined ? undefined : value ? t.common.yes : t.common.no;
  const [pa, pb] = [a.provenance, b.provenance];
  return [
    timeFigure(f.makespan, a.schedule?.makespan_ns, b.schedule?.makespan_ns),
    timeFigure(f.steadySpan, a.schedule?.steady_span_ns, b.schedule?.steady_span_ns),
    timeFigure(f.bound, a.certificate.lower_bound_ns, b.certificate.lower_bound_ns),
    shareFigure(f.gap, gapOf(a), gapOf(b)),
    shareFigure(f.bubble, bubbleOf(a), bubbleOf(b)),
    bytesFigure(f.peak, largestPeak(a), largestPeak(b)),
    countFigure(f.offloads, offloadsOf(a), offloadsOf(b)),
    timeFigure(f.p95, a.robustness?.p95_ns, b.robustness?.p95_ns),
    countFigure(f.waits, a.schedule?.waits?.length, b.schedule?.waits?.length),
    textFigure(f.proven, yesNo(a.certificate.proven_optimal), yesNo(b.certificate.proven_optimal)),
    textFigure(f.placement, placementOf(a), placementOf(b)),
    countFigure(f.stages, a.problem?.stages.length, b.problem?.stages.length),
    countFigure(f.devices, a.problem?.devices.length, b.problem?.devices.length),
    countFigure(f.microBatches, a.problem?.micro_batches, b.problem?.micro_batches),
    textFigure(f.foundBy, foundByOf(a), foundByOf(b)),
    textFigure(f.engine, pa.engine, pb.engine),
    secondsFigure(f.solveTime, pa.solve_seconds, pb.solve_seconds),
  ];
}

function placementOf(result: PipelineResult): string | undefined {
  const { placement } = result.provenance;
  return placement ? serviceName("placement", placement) : undefined;
}

function foundByOf(result: PipelineResult): string | undefined {
  const { found_by: foundBy } = result.provenance;
  return foundBy ? serviceName("foundBy", foundBy) : undefined;
}

function bubbleOf(result: PipelineResult): number | null {
  return result.problem && result.schedule ? bubbleRatio(result.problem, result.schedule) : null;
}

function offloadsOf(result: PipelineResult): number | null {
  return result.schedule ? offloadCount(result.schedule) : null;
}
