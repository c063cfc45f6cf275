import type { DiagnosedCause, DiagnosedRemedy, Effect } from "../../api/types";
import { CopyButton } from "../../components/copy-button";
import { percent } from "../../format";
import { texts } from "../../i18n";
import { EvidenceTable } from "./evidence";
import { FiguresTable } from "./figures";
import { diagnosisWord, quantityText } from "./words";

const LOOKS: Record<DiagnosedCause["state"], string> = {
  supported: "failed",
  possible: "infeasible",
  ruled_out: "cancelled",
};

/** A cause: what speaks for it, how to check it, and what can be done. */
export function CausePart(props: { cause: DiagnosedCause }) {
  const t = texts().diagnosis;
  const { cause } = props;
  const title = diagnosisWord("cause", cause.cause);
  const symptoms = cause.symptoms.map((symptom) => diagnosisWord("symptom", symptom));
  return (
    <section class="cause" aria-label={title}>
      <div class="row">
        <h4 class="cause-title">{title}</h4>
        <span class={`badge badge-${LOOKS[cause.state]}`}>
          {diagnosisWord("state", cause.state)}
        </span>
        {cause.weight !== null && (
          <span class="faint" title={t.weightHelp}>
            {t.weight(percent(cause.weight, 1))}
          </span>
        )}
      </div>
      <p lang="en">{cause.summary}</p>
      {symptoms.length > 0 && (
        <p class="faint small">
          {t.explains}: {symptoms.join(", ")}
        </p>
      )}
      <EvidenceTable evidence={cause.evidence} of={title} />
      <Checks cause={cause} />
      <Remedies cause={cause} />
      {cause.needs.length > 0 && (
        <p class="small">
          {t.needs} <Codes texts={cause.needs} />
        </p>
      )}
    </section>
  );
}

function Codes(props: { texts: readonly string[] }) {
  return (
    <>
      {props.texts.map((text, index) => (
        <span key={text}>
          {index > 0 && ", "}
          <code>{text}</code>
        </span>
      ))}
    </>
  );
}

function Checks(props: { cause: DiagnosedCause }) {
  const t = texts().diagnosis;
  if (props.cause.checks.length === 0) {
    return null;
  }
  return (
    <>
      <h5>{t.checks}</h5>
      <ul>
        {props.cause.checks.map((check) => (
          <li key={check.command}>
            <span class="command">
              <code>{check.command}</code>
              <CopyButton text={() => check.command} label={check.command} />
            </span>
            <span class="faint">
              {t.lookFor} <span lang="en">{check.look_for}</span>
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Remedies(props: { cause: DiagnosedCause }) {
  const t = texts().diagnosis;
  if (props.cause.remedies.length === 0) {
    return null;
  }
  return (
    <>
      <h5>{t.remedies}</h5>
      <ul>
        {props.cause.remedies.map((remedy, index) => (
          <li key={`${remedy.remedy} ${String(index)}`}>
            <Remedy remedy={remedy} />
          </li>
        ))}
      </ul>
    </>
  );
}

function Remedy(props: { remedy: DiagnosedRemedy }) {
  const t = texts().diagnosis;
  const { remedy } = props;
  return (
    <>
      <strong>{diagnosisWord("remedy", remedy.remedy)}.</strong>{" "}
      <span lang="en">{remedy.detail}</span>
      {remedy.predicted_effect && (
        <EffectLine effect={remedy.predicted_effect} text={t.effect} textNew={t.effectNew} />
      )}
      {remedy.predicted_cost && (
        <EffectLine effect={remedy.predicted_cost} text={t.cost} textNew={t.costNew} />
      )}
      {remedy.no_prediction !== null && (
        <p class="faint small">
          {t.noPrediction} <span lang="en">{remedy.no_prediction}</span>
        </p>
      )}
      {remedy.request_changes && <Changes changes={remedy.request_changes} />}
      {remedy.figures.length > 0 && <FiguresTable rows={remedy.figures} />}
    </>
  );
}

function EffectLine(props: {
  effect: Effect;
  text: (quantity: string, before: string, after: string) => string;
  textNew: (quantity: string, after: string) => string;
}) {
  const { effect } = props;
  const quantity = diagnosisWord("quantity", effect.quantity);
  const after = quantityText(effect.after, effect.unit);
  return (
    <p>
      {effect.before === null
        ? props.textNew(quantity, after)
        : props.text(quantity, quantityText(effect.before, effect.unit), after)}
      {effect.change !== null && ` (${percent(effect.change, 1)})`}
      <span class="fact-note" lang="en">
        {effect.basis}
      </span>
    </p>
  );
}

function Changes(props: { changes: Readonly<Record<string, unknown>> }) {
  return (
    <ul aria-label={texts().diagnosis.changes}>
      {Object.entries(props.changes).map(([path, value]) => (
        <li key={path}>
          <code>
            {path} = {JSON.stringify(value)}
          </code>
        </li>
      ))}
    </ul>
  );
}
