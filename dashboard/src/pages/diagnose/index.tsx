/** From symptoms and numbers to causes, for a training that no run of the service follows too. */

import { useMemo } from "preact/hooks";
import { Failure, Loading } from "../../components/states";
import { texts } from "../../i18n";
import { useTitle } from "../../use-title";
import { DiagnosisResult } from "../../views/diagnosis";
import { diagnosisWord } from "../../views/diagnosis/words";
import { KnownPanel } from "./known-panel";
import { DiagnoseStore } from "./store";
import "../../styles/form.css";
import "../../styles/runs.css";

export function DiagnosePage() {
  const t = texts().diagnosis;
  const store = useMemo(() => new DiagnoseStore(), []);
  useTitle(t.title);
  return (
    <>
      <h1>{t.title}</h1>
      <p>{t.intro}</p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void store.diagnose();
        }}
      >
        <section class="panel">
          <Symptoms store={store} />
        </section>
        <KnownPanel store={store} />
        <Submit store={store} />
      </form>
      <Answer store={store} />
    </>
  );
}

function Symptoms(props: { store: DiagnoseStore }) {
  const t = texts().diagnosis;
  const { store } = props;
  return (
    <fieldset class="symptom-choices" aria-describedby="symptoms-help">
      <legend>{t.symptoms}</legend>
      {Object.keys(t.names.symptom).map((symptom) => (
        <label key={symptom}>
          <input
            type="checkbox"
            checked={store.symptoms.value.has(symptom)}
            onChange={(event) => store.tick(symptom, event.currentTarget.checked)}
          />
          {diagnosisWord("symptom", symptom)}
        </label>
      ))}
      <p class="field-help" id="symptoms-help">
        {t.symptomsHelp}
      </p>
    </fieldset>
  );
}

function Submit(props: { store: DiagnoseStore }) {
  const t = texts().diagnosis;
  const { store } = props;
  const isNothing = store.symptoms.value.size === 0 && Object.keys(store.body.value).length === 0;
  const isBlocked = isNothing || store.fault.value !== null || store.isSending.value;
  return (
    <div class="row page-head">
      <button type="submit" class="primary" disabled={isBlocked}>
        {t.submit}
      </button>
      {isNothing && <span class="faint">{t.nothing}</span>}
    </div>
  );
}

function Answer(props: { store: DiagnoseStore }) {
  const t = texts().diagnosis;
  const { store } = props;
  if (store.isSending.value) {
    return <Loading what={t.isSending} />;
  }
  if (store.error.value !== null) {
    return <Failure error={store.error.value} onRetry={() => void store.diagnose()} />;
  }
  return (
    store.answer.value && (
      <section class="panel" aria-labelledby="diagnosis-title">
        <h2 id="diagnosis-title">{t.result}</h2>
        <DiagnosisResult diagnosis={store.answer.value} />
      </section>
    )
  );
}
