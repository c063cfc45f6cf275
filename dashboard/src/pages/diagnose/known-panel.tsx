import { useRef } from "preact/hooks";
import { bytes } from "../../format";
import { texts } from "../../i18n";
import { faultText } from "../new/json-panel";
import type { JsonObject } from "../new/json-text";
import { PARTS, type Part } from "./known";
import type { DiagnoseStore, Notice } from "./store";

/** Browsers become slow with longer texts in a field. */
const LONGEST_EDITED = 400_000;

/** What is known, as JSON that is pasted, dropped or opened from files. */
export function KnownPanel(props: { store: DiagnoseStore }) {
  const t = texts().diagnosis;
  const { store } = props;
  const chooser = useRef<HTMLInputElement>(null);
  return (
    <section
      class="panel"
      aria-labelledby="known-title"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void addFiles(store, event.dataTransfer?.files);
      }}
    >
      <div class="row form-head">
        <h2 id="known-title">{t.known}</h2>
        <button type="button" onClick={() => chooser.current?.click()}>
          {t.open}
        </button>
        <input
          ref={chooser}
          type="file"
          accept=".json,application/json"
          multiple
          hidden
          aria-label={t.open}
          onChange={(event) => {
            void addFiles(store, event.currentTarget.files);
          }}
        />
        {store.text.value !== "" && (
          <button type="button" onClick={() => store.clear()}>
            {t.clear}
          </button>
        )}
      </div>
      <p class="field-help" id="known-help">
        {t.knownHelp}
      </p>
      <Text store={store} />
      {store.fault.value && (
        <p class="error-text" id="known-fault" role="alert">
          {faultText(store.fault.value)}
        </p>
      )}
      <Has body={store.body.value} />
      {store.notices.value.map((notice) => (
        <p key={JSON.stringify(notice)} class="warn-text" role="status">
          {noticeText(notice)}
        </p>
      ))}
    </section>
  );
}

function Text(props: { store: DiagnoseStore }) {
  const t = texts().diagnosis;
  const { store } = props;
  const text = store.text.value;
  if (text.length > LONGEST_EDITED) {
    return <p>{t.tooLong(bytes(text.length))}</p>;
  }
  return (
    <textarea
      class="json-text"
      aria-label={t.label}
      aria-describedby={store.fault.value ? "known-help known-fault" : "known-help"}
      aria-invalid={store.fault.value !== null}
      rows={Math.min(20, Math.max(6, text.split("\n").length))}
      spellcheck={false}
      autocomplete="off"
      value={text}
      onInput={(event) => store.type(event.currentTarget.value)}
    />
  );
}

/** Which parts there are, in words. */
function Has(props: { body: JsonObject }) {
  const t = texts().diagnosis;
  const { body } = props;
  const parts = PARTS.filter((name) => name in body).map((name) => partText(name, body));
  return parts.length === 0 ? null : (
    <p role="status">
      {t.has} {parts.join(", ")}
    </p>
  );
}

function partText(name: Part, body: JsonObject): string {
  const words = texts().diagnosis.parts;
  return name === "telemetry"
    ? words.telemetry(Array.isArray(body.telemetry) ? body.telemetry.length : 0)
    : words[name];
}

function noticeText(notice: Notice): string {
  const t = texts().diagnosis;
  return notice.kind === "leftOut"
    ? t.notUsed(notice.names.join(", "))
    : t[notice.kind](notice.file);
}

async function addFiles(store: DiagnoseStore, files: FileList | null | undefined): Promise<void> {
  for (const file of files ?? []) {
    store.add(await file.text(), file.name);
  }
}
