/** The same request on the command line. */

import { useMemo } from "preact/hooks";
import { serviceAddress } from "../../api/client";
import { apiKey } from "../../api/key";
import type { Kind } from "../../api/types";
import { CopyButton } from "../../components/copy-button";
import { texts } from "../../i18n";
import { curlCommand, fileName, loadmasterCommand } from "./commands";
import { downloadBody } from "./json-panel";
import type { Sheet } from "./sheet";

export function CommandsPanel(props: { kind: Kind; sheet: Sheet; fresh: boolean }) {
  const t = texts().form.commands;
  const context = {
    kind: props.kind,
    body: props.sheet.body,
    server: serviceAddress(),
    fresh: props.fresh,
    usesKey: apiKey.value !== null,
  };
  const file = fileName(props.sheet.body);
  const inputs = [context.kind, context.body, context.fresh, context.usesKey];
  const curl = useMemo(() => curlCommand(context), inputs);
  const loadmaster = useMemo(() => loadmasterCommand(context), inputs);
  return (
    <section class="panel" aria-labelledby="commands-title">
      <h2 id="commands-title">{t.title}</h2>
      <Command title={t.curl} text={curl} />
      <Command title={t.loadmaster} text={loadmaster} />
      <p class="field-help">
        {t.file(file)}{" "}
        <button type="button" class="quiet" onClick={() => downloadBody(props.sheet)}>
          {t.downloadFile(file)}
        </button>
      </p>
      {context.usesKey && <p class="field-help">{t.key}</p>}
      {props.sheet.body.webhook !== undefined && <p class="field-help">{t.noWebhook}</p>}
    </section>
  );
}

function Command(props: { title: string; text: string }) {
  return (
    <>
      <div class="row form-head">
        <h3>{props.title}</h3>
        <CopyButton text={() => props.text} label={props.title} />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reached by keys. */}
      <pre class="command" tabIndex={0}>
        {props.text}
      </pre>
    </>
  );
}
