/** What is planned, and what the request starts from: choices that change which fields there are. */

import type { ComponentChildren } from "preact";
import type { Kind } from "../../api/types";
import { texts } from "../../i18n";
import { isCounted } from "./fields";
import type { Json, JsonObject } from "./json-text";
import { isObject } from "./json-text";
import { type Sheet, type Source, sourceOf, withCountedDevices, withSource } from "./sheet";
import { KINDS } from "./store";

export function KindChoice(props: { kind: Kind; onKind: (kind: Kind) => void }) {
  const t = texts();
  return (
    <fieldset class="panel form-kinds">
      <legend>{t.form.kind}</legend>
      {KINDS.map((kind) => (
        <label key={kind} class="form-kind">
          <input
            type="radio"
            name="kind"
            value={kind}
            checked={kind === props.kind}
            onChange={() => props.onKind(kind)}
          />
          <span>
            <strong>{t.common.kinds[kind]}</strong>
            <span class="field-help">{t.form.kindHelp[kind]}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}

interface SourceProps {
  kind: Kind;
  sheet: Sheet;
  onSheet: (sheet: Sheet) => void;
}

/** A model or a measured problem; a transformer or a graph; devices by number or as a cluster. */
export function SourceChoice(props: SourceProps) {
  const t = texts().form.source;
  const { kind, sheet, onSheet } = props;
  if (kind === "training") {
    return null;
  }
  const source = sourceOf(kind, sheet.body);
  const sources: readonly Source[] =
    kind === "pipeline" ? ["model", "problem"] : ["transformer", "graph"];
  return (
    <div class="panel row form-sources">
      <Radios title={t[kind]} name="source">
        {sources.map((name) => (
          <Radio
            key={name}
            name="source"
            title={t[name]}
            isChosen={name === source}
            onChoose={() => onSheet(withSource(sheet, kind, name))}
          />
        ))}
      </Radios>
      {kind === "sharding" && <DevicesChoice sheet={sheet} onSheet={onSheet} />}
      <SourceSummary body={sheet.body} />
    </div>
  );
}

function DevicesChoice(props: { sheet: Sheet; onSheet: (sheet: Sheet) => void }) {
  const t = texts().form.source;
  const counted = isCounted(props.sheet.body);
  const choose = (wanted: boolean) => props.onSheet(withCountedDevices(props.sheet, wanted));
  return (
    <Radios title={t.devices} name="devices">
      <Radio name="devices" title={t.cluster} isChosen={!counted} onChoose={() => choose(false)} />
      <Radio name="devices" title={t.count} isChosen={counted} onChoose={() => choose(true)} />
    </Radios>
  );
}

function SourceSummary(props: { body: JsonObject }) {
  const t = texts().form.source;
  const { problem, graph } = props.body;
  if (isObject(problem)) {
    return (
      <p class="field-help">
        {t.problemSummary(lengthOf(problem.stages), lengthOf(problem.devices))}. {t.editInJson}
      </p>
    );
  }
  if (isObject(graph)) {
    return (
      <p class="field-help">
        {t.graphSummary(lengthOf(graph.operators), lengthOf(graph.inputs))}. {t.editGraphInJson}
      </p>
    );
  }
  return null;
}

function Radios(props: { title: string; name: string; children: ComponentChildren }) {
  return (
    <fieldset class="form-radios">
      <legend>{props.title}</legend>
      {props.children}
    </fieldset>
  );
}

function Radio(props: { name: string; title: string; isChosen: boolean; onChoose: () => void }) {
  return (
    <label class="form-check">
      <input type="radio" name={props.name} checked={props.isChosen} onChange={props.onChoose} />
      {props.title}
    </label>
  );
}

function lengthOf(value: Json | undefined): number {
  return Array.isArray(value) ? value.length : 0;
}
