import type { ComponentChildren } from "preact";
import { bytes, duration, percent } from "../../format";
import { texts } from "../../i18n";
import type { Planned } from "./model";
import type { Certificate } from "./types";

/** A figure with its name; nothing where it is not known. */
export function Fact(props: { name: string; children?: ComponentChildren; help?: string }) {
  if (props.children === null || props.children === undefined) {
    return null;
  }
  return (
    <div>
      <dt title={props.help}>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

/** The figures that matter most of a plan. */
export function PlanFacts(props: { part: Planned }) {
  const t = texts().sharding.facts;
  const { plan, instance, certificate } = props.part;
  const limit = plan.device_memory_bytes ?? instance.device_memory_bytes;
  return (
    <dl class="facts">
      <Fact name={t.objective} help={t.objectiveHelp}>
        {bytes(plan.objective)}
      </Fact>
      <Fact name={t.redundant}>{known(plan.redundant_bytes, bytes)}</Fact>
      <Fact name={t.communication}>{known(plan.communication_bytes, bytes)}</Fact>
      <Fact name={t.resharding}>{known(plan.resharding_bytes, bytes)}</Fact>
      <Fact name={t.alpha}>{String(instance.alpha)}</Fact>
      <Fact name={t.kept}>{withShare(plan.memory_bytes, limit)}</Fact>
      <Fact name={t.peak}>
        {plan.predicted_peak_bytes ? withShare(plan.predicted_peak_bytes, limit) : null}
      </Fact>
      <Fact name={t.limit}>{known(limit, bytes)}</Fact>
      <Fact name={t.step}>{known(plan.predicted_step_ns, duration)}</Fact>
      <Fact name={t.throughput}>
        {known(plan.relative_throughput, (value) => percent(value, 1))}
      </Fact>
      <Fact name={t.proven}>{certificate ? proofText(certificate) : null}</Fact>
    </dl>
  );
}

/** In a few words: proven optimal, or how far from it at most. */
export function proofText(certificate: Pick<Certificate, "proven_optimal" | "gap">): string {
  const t = texts().sharding.facts;
  if (certificate.proven_optimal) {
    return `✓ ${t.isOptimal}`;
  }
  return certificate.gap === null ? t.notProven : t.gap(percent(certificate.gap));
}

export function known(
  value: number | null | undefined,
  format: (value: number) => string,
): string | null {
  return value === null || value === undefined ? null : format(value);
}

function withShare(value: number, limit: number | null | undefined) {
  return (
    <>
      {bytes(value)}
      {limit ? (
        <span class="fact-note">{texts().sharding.facts.ofLimit(percent(value / limit, 1))}</span>
      ) : null}
    </>
  );
}
