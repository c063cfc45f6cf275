import type { ComponentChildren } from "preact";
import { bytes, milliseconds, number, percent } from "../../format";
import { texts } from "../../i18n";
import { gapOf } from "./bounds";
import { bestClassic, type Contender } from "./comparison";
import { contenderTitle } from "./comparison-chart";
import { bubbleRatio, fullestDevice, isSteadySpan, offloadCount } from "./plan-facts";
import type { PipelineResult } from "./types";

/** The plan's figures at a glance. */
export function FactsPanel(props: { result: PipelineResult; contenders: readonly Contender[] }) {
  const t = texts().pipeline.facts;
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      <Summary contenders={props.contenders} />
      <dl class="facts">
        {facts(props.result).map(([name, value]) => (
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

function facts(result: PipelineResult): [string, ComponentChildren][] {
  const t = texts().pipeline.facts;
  const { schedule, problem, certificate, provenance } = result;
  const steady = isSteadySpan(result);
  const mark = (isObjective: boolean) => (isObjective ? ` (${t.objective})` : "");
  const entries: [string, ComponentChildren | null][] = [
    [t.makespan + mark(!steady), time(schedule?.makespan_ns)],
    [t.steadySpan + mark(steady), time(schedule?.steady_span_ns)],
    [t.gap, gapText(result)],
    [t.bound, time(certificate.lower_bound_ns)],
    [t.bubble, problem && schedule ? share(bubbleRatio(problem, schedule)) : null],
    [t.peak, peakText(result)],
    [t.offloads, schedule ? count(offloadCount(schedule)) : null],
    [t.verified, verifiedText(result)],
    [t.placement, provenance.placement ?? null],
    [t.foundBy, provenance.found_by ?? null],
    [t.size, sizeText(result)],
  ];
  return entries.filter(([, value]) => value !== null);
}

function time(ns: number | null | undefined): string | null {
  return ns === null || ns === undefined ? null : milliseconds(ns);
}

function share(ratio: number | null): string | null {
  return ratio === null ? null : percent(ratio, 1);
}

function count(value: number | null): string | null {
  return value === null ? null : number(value);
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
  return peak.limitBytes === null
    ? t.peakWithoutLimit(bytes(peak.bytes), peak.device)
    : t.peakOf(bytes(peak.bytes), bytes(peak.limitBytes), peak.device);
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
