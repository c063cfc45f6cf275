import { Scope } from "../../components/basis";
import { Fact, known, yesNo } from "../../components/fact";
import { percent, writerOf } from "../../format";
import { texts } from "../../i18n";
import type { Certificate } from "./types";

/** What is proven of a plan, how, and among which plans. */
export function CertificatePanel(props: { certificate: Certificate }) {
  const t = texts().sharding.certificate;
  const { certificate } = props;
  const proofs = Object.entries(certificate.proof ?? {}).filter(([, text]) => text !== null);
  const scope = certificate.scope ?? [];
  const write = writerOf("bytes", [certificate.objective, certificate.lower_bound]);
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      <dl class="facts">
        <Fact name={t.verified}>
          {certificate.verified && certificate.verifier
            ? t.verifiedBy(certificate.verifier)
            : yesNo(certificate.verified)}
        </Fact>
        <Fact name={t.optimal}>{yesNo(certificate.proven_optimal)}</Fact>
        <Fact name={t.objective}>{write(certificate.objective)}</Fact>
        <Fact name={t.lowerBound}>{known(certificate.lower_bound, write)}</Fact>
        <Fact name={t.gap}>{known(certificate.gap, (gap) => percent(gap))}</Fact>
        <Fact name={t.apart}>{known(certificate.layers_apart_bound, write)}</Fact>
      </dl>
      {proofs.length > 0 && (
        <>
          <h3>{t.proof}</h3>
          <ul>
            {proofs.map(([name, text]) => (
              <li key={name}>
                <span class="faint">{t.proofs[name] ?? name}: </span>
                {typeof text === "string" ? text : JSON.stringify(text)}
              </li>
            ))}
          </ul>
        </>
      )}
      <Scope lines={scope} />
    </section>
  );
}
