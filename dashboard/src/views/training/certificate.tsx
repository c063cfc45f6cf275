import { duration, number, percent } from "../../format";
import { texts } from "../../i18n";
import { RawProvenance } from "../sharding/basis";
import { Scope } from "../sharding/certificate";
import { Fact, known } from "../sharding/facts";
import { yesNo } from "../sharding/front";
import type { TrainingCertificate, TrainingProvenance } from "./types";

/** What is proven of the best plan, and among which configurations. */
export function TrainingCertificatePanel(props: { certificate: TrainingCertificate }) {
  const t = texts();
  const { certificate } = props;
  return (
    <section class="panel">
      <h2>{t.training.certificate.title}</h2>
      <dl class="facts">
        <Fact name={t.sharding.certificate.verified}>
          {certificate.verified && certificate.verifier
            ? t.sharding.certificate.verifiedBy(certificate.verifier)
            : yesNo(certificate.verified)}
        </Fact>
        <Fact name={t.sharding.certificate.optimal}>{yesNo(certificate.proven_optimal)}</Fact>
        <Fact name={t.training.certificate.value}>{duration(certificate.value_ns)}</Fact>
        <Fact name={t.sharding.certificate.lowerBound}>
          {known(certificate.lower_bound_ns, duration)}
        </Fact>
        <Fact name={t.training.certificate.boundName}>{certificate.bound_name}</Fact>
        <Fact name={t.sharding.certificate.gap}>
          {known(certificate.gap, (gap) => percent(gap))}
        </Fact>
        <Fact name={t.training.certificate.ranking}>{yesNo(certificate.ranking_complete)}</Fact>
      </dl>
      <Scope lines={certificate.scope ?? []} />
    </section>
  );
}

/** How the answer came about. */
export function TrainingProvenancePanel(props: { provenance: TrainingProvenance }) {
  const t = texts().sharding;
  const { provenance } = props;
  const seconds = (value: number) => t.provenance.seconds(number(value, 2));
  return (
    <details class="panel">
      <summary>{t.basis.provenance}</summary>
      <dl class="facts">
        <Fact name={t.provenance.planner}>{provenance.planner_version}</Fact>
        <Fact name={t.provenance.engine}>{provenance.engine}</Fact>
        <Fact name={t.provenance.solve}>{known(provenance.solve_seconds, seconds)}</Fact>
        <Fact name={t.provenance.queue}>{known(provenance.queue_seconds, seconds)}</Fact>
        <Fact name={t.provenance.attempts}>
          {known(provenance.attempts, (value) => number(value))}
        </Fact>
      </dl>
      <RawProvenance provenance={provenance} />
    </details>
  );
}
