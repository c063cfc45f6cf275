/** A diagnosis: what was seen, and causes in the order in which the numbers support them. */

import type { DiagnosedCause, DiagnosedSymptom, Diagnosis } from "../../api/types";
import { Assumptions, Warnings } from "../../components/basis";
import { texts } from "../../i18n";
import { CausePart } from "./cause";
import { EvidenceTable } from "./evidence";
import { diagnosisWord } from "./words";
import "../../styles/runs.css";

export function DiagnosisResult(props: { diagnosis: Diagnosis }) {
  const t = texts().diagnosis;
  const { diagnosis } = props;
  const inState = (state: DiagnosedCause["state"]) =>
    diagnosis.causes.filter((cause) => cause.state === state);
  const supported = inState("supported");
  const possible = inState("possible");
  return (
    <>
      <Warnings warnings={diagnosis.warnings} />
      <h3>{t.shown}</h3>
      {diagnosis.symptoms.length === 0 ? (
        <p>{t.noSymptoms}</p>
      ) : (
        diagnosis.symptoms.map((symptom) => <Symptom key={symptom.symptom} symptom={symptom} />)
      )}
      <h3>{t.causes}</h3>
      {diagnosis.causes.length === 0 && <p>{t.noCauses}</p>}
      {diagnosis.causes.length > 0 && supported.length === 0 && <p>{t.noneSupported}</p>}
      {supported.map((cause) => (
        <CausePart key={cause.cause} cause={cause} />
      ))}
      <Further title={t.possible} causes={possible} isOpen={supported.length === 0} />
      <Further title={t.ruledOut} causes={inState("ruled_out")} isOpen={false} />
      <Assumptions assumptions={diagnosis.assumptions} isPart />
    </>
  );
}

function Symptom(props: { symptom: DiagnosedSymptom }) {
  const { symptom } = props;
  const title = diagnosisWord("symptom", symptom.symptom);
  return (
    <div>
      <p>
        <strong>{title}</strong>{" "}
        <span class="faint">({diagnosisWord("foundIn", symptom.found_in)})</span>
      </p>
      <EvidenceTable evidence={symptom.evidence} of={title} />
    </div>
  );
}

function Further(props: {
  title: (count: number) => string;
  causes: readonly DiagnosedCause[];
  isOpen: boolean;
}) {
  if (props.causes.length === 0) {
    return null;
  }
  return (
    <details open={props.isOpen}>
      <summary>{props.title(props.causes.length)}</summary>
      {props.causes.map((cause) => (
        <CausePart key={cause.cause} cause={cause} />
      ))}
    </details>
  );
}
