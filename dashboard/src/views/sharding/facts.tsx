import { Fact, known } from "../../components/fact";
import { duration, percent, writerOf } from "../../format";
import { texts } from "../../i18n";
import type { Planned } from "./model";
import type { Certificate } from "./types";

/** The figures that matter most of a plan. */
export function PlanFacts(props: { part: Planned }) {
  const t = texts().sharding.facts;
  const { plan, instance, certificate } = props.part;
  const limit = plan.device_memory_bytes ?? instance.device_memory_bytes;
  const cost = writerOf("bytes", [
    plan.objective,
    plan.redundant_bytes,
    plan.communication_bytes,
    plan.resharding_bytes,
  ]);
  const memory = writerOf("bytes", [limit, plan.memory_bytes, plan.predicted_peak_bytes]);
  return (
    <dl class="facts">
      <Fact name={t.objective} help={t.objectiveHelp}>
        {cost(plan.objective)}
      </Fact>
      <Fact name={t.redundant}>{known(plan.redundant_bytes, cost)}</Fact>
      <Fact name={t.communication}>{known(plan.communication_bytes, cost)}</Fact>
      <Fact name={t.resharding}>{known(plan.resharding_bytes, cost)}</Fact>
      <Fact name={t.alpha}>{String(instance.alpha)}</Fact>
      <Fact name={t.kept}>{withShare(plan.memory_bytes, limit, memory)}</Fact>
      <Fact name={t.peak}>
        {plan.predicted_peak_bytes ? withShare(plan.predicted_peak_bytes, limit, memory) : null}
      </Fact>
      <Fact name={t.limit}>{known(limit, memory)}</Fact>
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

function withShare(
  value: number,
  limit: number | null | undefined,
  write: (value: number) => string,
) {
  return (
    <>
      {write(value)}
      {limit ? (
        <span class="fact-note">{texts().sharding.facts.ofLimit(percent(value / limit, 1))}</span>
      ) : null}
    </>
  );
}
