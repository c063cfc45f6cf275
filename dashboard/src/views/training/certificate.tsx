import { duration, percent } from "../../format";
import { texts } from "../../i18n";
import { Scope } from "../sharding/certificate";
import { Fact, known } from "../sharding/facts";
import { yesNo } from "../sharding/front";
import type { TrainingCertificate } from "./types";

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
