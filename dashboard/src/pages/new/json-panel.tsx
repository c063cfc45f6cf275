/** The JSON that is on screen, to be read, edited, copied and downloaded. */

import { useMemo } from "preact/hooks";
import { CopyButton } from "../../components/copy-button";
import { saveText } from "../../download";
import { bytes } from "../../format";
import { texts } from "../../i18n";
import { fileName } from "./commands";
import type { Further } from "./further";
import { type JsonFault, writeJson } from "./json-text";
import { jsonOf, type Sheet } from "./sheet";

/** Browsers become slow with longer texts in a field. */
const LONGEST_EDITED = 400_000;

interface Props {
  sheet: Sheet;
  fault: JsonFault | null;
  further: readonly Further[];
  onJson: (text: string) => void;
  onDiscard: () => void;
}

export function JsonPanel(props: Props) {
  const t = texts().form;
  const common = texts().common;
  const text = useMemo(() => jsonOf(props.sheet), [props.sheet.body, props.sheet.json]);
  const isTooLong = text.length > LONGEST_EDITED;
  const file = fileName(props.sheet.body);
  return (
    <section class="panel" aria-labelledby="json-title">
      <div class="row form-head">
        <h2 id="json-title">{t.json.title}</h2>
        <CopyButton text={() => text} label={t.json.title} />
        <button
          type="button"
          class="quiet"
          onClick={() => saveText(text, "application/json", file)}
        >
          {common.download}
        </button>
      </div>
      <FurtherFields further={props.further} />
      {isTooLong ? (
        <p>{t.json.tooLong(bytes(text.length))}</p>
      ) : (
        <>
          <p class="field-help" id="json-help">
            {t.json.help}
          </p>
          <textarea
            class="json-text"
            aria-label={t.json.label}
            aria-describedby={props.fault ? "json-help json-fault" : "json-help"}
            aria-invalid={props.fault !== null}
            rows={Math.min(30, Math.max(8, text.split("\n").length))}
            spellcheck={false}
            autocomplete="off"
            value={text}
            onInput={(event) => props.onJson(event.currentTarget.value)}
          />
        </>
      )}
      {props.fault && (
        <div class="row" id="json-fault" role="alert">
          <span class="error-text">{faultText(props.fault)}</span>
          <button type="button" onClick={props.onDiscard}>
            {t.json.discard}
          </button>
        </div>
      )}
    </section>
  );
}

export function faultText(fault: JsonFault): string {
  const t = texts().form.json;
  return t.fault(fault.line, fault.column, t.expected[fault.expected], fault.found);
}

function FurtherFields(props: { further: readonly Further[] }) {
  const t = texts().form.further;
  if (props.further.length === 0) {
    return null;
  }
  return (
    <div class="further">
      <h3>{t.title}</h3>
      <p class="field-help">{t.help}</p>
      <ul>
        {props.further.map((entry) => (
          <li key={entry.path}>
            <code>{entry.path}</code> <span class="faint further-value">{shortly(entry)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function shortly(entry: Further): string {
  const text = JSON.stringify(entry.value) ?? "";
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

/** The file that the command lines name. */
export function downloadBody(sheet: Sheet): void {
  saveText(writeJson(sheet.body), "application/json", fileName(sheet.body));
}
