import type { ComponentChildren } from "preact";
import { number, percent, writerOf } from "../../format";
import { texts } from "../../i18n";
import { comparisonReason, serviceName } from "../../i18n/service-text";
import { gapOf } from "./bounds";
import { bestClassic, type Contender } from "./comparison";
import { contenderTitle } from "./comparison-chart";
import { namesake } from "./namesake";
import { fullestDevice, isSteadySpan, offloadCount, timeWriter } from "./plan-facts";
import type { PipelineResult } from "./types";

/** The plan's figures at a glance. */
export function FactsPanel(props: { result: PipelineResult; contenders: readonly Contender[] }) {
  const t = texts().pipeline.facts;
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      <Summary contenders={props.contenders} />
      <dl class="facts">
        {facts(props.result, props.contenders).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Summary(props: { contenders: readonly Contender[] }) {
  const t = texts().pipeline.facts;
  if (props.contenders.length < 2) {
    return null;
  }
  const best = bestClassic(props.contenders);
  if (best === null) {
    return <p>{t.summaryAlone}</p>;
  }
  const ownNs = props.contenders[0]?.objectiveNs ?? null;
  if (ownNs === null || best.objectiveNs === null) {
    return null;
  }
  const shorter = (best.objectiveNs - ownNs) / best.objectiveNs;
  const title = contenderTitle(best);
  return <p>{shorter > 0 ? t.summary(title, percent(shorter, 1)) : t.summarySame(title)}</p>;
}

function facts(
  result: PipelineResult,
  contenders: readonly Contender[],
): [string, ComponentChildren][] {
  const t = texts().pipeline.facts;
  const { schedule, certificate, provenance } = result;
  const steady = isSteadySpan(result);
  const write = timeWriter(result);
  const time = (ns: number | null | undefined) =>
    ns === null || ns === undefined ? null : write(ns);
  const mark = (isObjective: boolean) => (isObjective ? ` (${t.objective})` : "");
  const entries: [string, ComponentChildren | null][] = [
    [t.makespan + mark(!steady), time(schedule?.makespan_ns)],
    [t.steadySpan + mark(steady), time(schedule?.steady_span_ns)],
    [t.gap, gapText(result)],
    [t.bound, time(certificate.lower_bound_ns)],
    [t.bubble, contenders[0] ? bubbleText(contenders[0]) : null],
    [t.peak, peakText(result)],
    [t.offloads, schedule ? count(offloadCount(schedule)) : null],
    [t.verified, verifiedText(result)],
    [t.placement, provenance.placement ? serviceName("placement", provenance.placement) : null],
    [t.foundBy, foundByText(result, contenders)],
    [t.size, sizeText(result)],
  ];
  return entries.filter(([, value]) => value !== null);
}

function count(value: number | null): string | null {
  return value === null ? null : number(value);
}

/** The bubble with the parts that it adds up from. */
function bubbleText(own: Contender): ComponentChildren | null {
  const { split, bubbleRatio } = own;
  if (split === null || bubbleRatio === null) {
    return null;
  }
  const t = texts().pipeline.facts;
  return (
    <>
      {percent(bubbleRatio, 1)}
      <span class="fact-note">
        {t.bubbleOf(percent(split.idle, 1), percent(split.epilogue, 1), percent(split.compute, 1))}
      </span>
    </>
  );
}

/** What found the plan, and how it differs from the row of the same name in the comparison. */
function foundByText(
  result: PipelineResult,
  contenders: readonly Contender[],
): ComponentChildren | null {
  const foundBy = result.provenance.found_by;
  if (foundBy === undefined) {
    return null;
  }
  const row = namesake(foundBy, contenders);
  return (
    <>
      {serviceName("foundBy", foundBy)}
      {row && <span class="fact-note">{namesakeText(row)}</span>}
    </>
  );
}

function namesakeText(row: Contender): string {
  const t = texts().pipeline.facts;
  return row.objectiveNs !== null && row.fits
    ? t.variantOf(row.name)
    : t.variantFits(row.name, comparisonReason(row) ?? texts().common.unknown);
}

function gapText(result: PipelineResult): string | null {
  if (result.certificate.proven_optimal) {
    return `✓ ${texts().pipeline.facts.proven}`;
  }
  const gap = gapOf(result);
  return gap === null ? null : percent(gap);
}

function peakText(result: PipelineResult): string | null {
  const t = texts().pipeline.facts;
  const peak = fullestDevice(result);
  if (peak === null) {
    return null;
  }
  const write = writerOf("bytes", [peak.bytes, peak.limitBytes]);
  return peak.limitBytes === null
    ? t.peakWithoutLimit(write(peak.bytes), peak.device)
    : t.peakOf(write(peak.bytes), write(peak.limitBytes), peak.device);
}

function verifiedText(result: PipelineResult): ComponentChildren | null {
  const t = texts();
  const { verified, verifier } = result.certificate;
  if (verified === undefined) {
    return null;
  }
  return <span title={verifier}>{verified ? `✓ ${t.common.yes}` : `✕ ${t.common.no}`}</span>;
}

function sizeText(result: PipelineResult): string | null {
  const problem = result.problem;
  return problem
    ? texts().pipeline.facts.sizeOf(
        problem.stages.length,
        problem.devices.length,
        problem.micro_batches,
      )
    : null;
}
