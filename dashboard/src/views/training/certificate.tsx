import { Scope } from "../../components/basis";
import { Fact, known, yesNo } from "../../components/fact";
import { percent, writerOf } from "../../format";
import { texts } from "../../i18n";
import { serviceName } from "../../i18n/service-text";
import type { TrainingCertificate } from "./types";

/** What is proven of the best plan, and among which configurations. */
export function TrainingCertificatePanel(props: { certificate: TrainingCertificate }) {
  const t = texts();
  const { certificate } = props;
  const write = writerOf("time", [certificate.value_ns]);
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
        <Fact name={t.training.certificate.value}>{write(certificate.value_ns)}</Fact>
        <Fact name={t.sharding.certificate.lowerBound}>
          {known(certificate.lower_bound_ns, write)}
        </Fact>
        <Fact name={t.training.certificate.boundName}>
          {certificate.bound_name && serviceName("bound", certificate.bound_name)}
        </Fact>
        {certificate.gap !== null && (
          <Fact name={t.training.facts.gap}>
            {percent(certificate.gap)}
            <span class="fact-note">{t.training.facts.gapHelp}</span>
          </Fact>
        )}
        <Fact name={t.training.certificate.ranking}>{yesNo(certificate.ranking_complete)}</Fact>
      </dl>
      <Scope lines={certificate.scope ?? []} />
    </section>
  );
}
