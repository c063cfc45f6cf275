import { runPath } from "../../api/source";
import type { Diagnosis, RunView } from "../../api/types";
import { texts } from "../../i18n";
import { DiagnosisResult } from "../../views/diagnosis";
import { AskedPanel, useAsked } from "./asked";

/** What the run's telemetry says about it. */
export function DiagnosisPanel(props: { run: RunView }) {
  const t = texts().runs.diagnosis;
  const asked = useAsked<Diagnosis>(`${runPath(props.run.id)}/diagnosis`);
  return (
    <AskedPanel asked={asked} title={t.title} explanation={t.explanation} texts={t}>
      {(diagnosis) => <DiagnosisResult diagnosis={diagnosis} />}
    </AskedPanel>
  );
}
