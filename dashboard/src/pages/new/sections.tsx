/** The form's sections: the fields needed most, and the others behind "more". */

import { useState } from "preact/hooks";
import type { Kind } from "../../api/types";
import { bytes } from "../../format";
import { texts } from "../../i18n";
import { getAt } from "./body";
import type { Field, Section } from "./field";
import { type FieldFault, FieldInput } from "./field-input";
import { presetNamed, presets, presetValue } from "./presets";
import { type Sheet, textOf } from "./sheet";
import { showValue } from "./values";

interface SectionsProps {
  kind: Kind;
  sheet: Sheet;
  sections: readonly Section[];
  faults: ReadonlyMap<string, readonly FieldFault[]>;
  onText: (field: Field, text: string) => void;
}

const NO_FAULTS: readonly FieldFault[] = [];

export function Sections(props: SectionsProps) {
  return (
    <>
      {props.sections.map((section) => (
        <SectionFields key={`${props.kind} ${section.title}`} {...props} section={section} />
      ))}
    </>
  );
}

function SectionFields(props: SectionsProps & { section: Section }) {
  const t = texts().form;
  const { section } = props;
  const help = (t.sectionHelp as Partial<Record<string, string>>)[section.title];
  return (
    <fieldset class="panel form-section">
      <legend>{t.sections[section.title]}</legend>
      {help !== undefined && <p class="field-help">{help}</p>}
      <FieldGrid {...props} fields={section.main} />
      {section.more.length > 0 && <MoreFields {...props} fields={section.more} />}
    </fieldset>
  );
}

function MoreFields(props: SectionsProps & { fields: readonly Field[] }) {
  const t = texts().form;
  const [isOpened, setOpened] = useState(false);
  const hasFaults = props.fields.some((field) => props.faults.has(field.path));
  const given = props.fields.filter((field) => textOf(props.sheet, field) !== "").length;
  const isOpen = isOpened || hasFaults;
  return (
    <details
      class="form-more"
      open={isOpen}
      onToggle={(event) => setOpened(event.currentTarget.open)}
    >
      <summary>{t.more(props.fields.length, given)}</summary>
      {isOpen && <FieldGrid {...props} />}
    </details>
  );
}

function FieldGrid(props: SectionsProps & { fields: readonly Field[] }) {
  return (
    <div class="form-grid">
      {props.fields.map((field) => (
        <FieldInput
          key={field.path}
          field={field}
          text={textOf(props.sheet, field)}
          preset={presetText(props.sheet, field)}
          faults={props.faults.get(field.path) ?? NO_FAULTS}
          onText={props.onText}
        />
      ))}
    </div>
  );
}

/** What the chosen preset has where nothing is typed. */
function presetText(sheet: Sheet, field: Field): string | undefined {
  const [part, name] = splitAt(field.path);
  const isGpu = part.endsWith(".gpu");
  const known = isGpu ? presets.value?.gpus : presets.value?.models;
  if (!known || !(isGpu || part === "model" || part === "transformer")) {
    return undefined;
  }
  // A sharding plan's graph has as many layers as are asked for, whatever the model has.
  if (field.path === "transformer.layers") {
    return undefined;
  }
  const preset = presetNamed(known, getAt(sheet.body, `${part}.preset`));
  const value = presetValue(preset, name);
  if (field.type === "bytes" && typeof value === "number") {
    return bytes(value);
  }
  return value === undefined ? undefined : (showValue(field.type, value) ?? undefined);
}

function splitAt(path: string): [part: string, name: string] {
  const at = path.lastIndexOf(".");
  return [path.slice(0, Math.max(at, 0)), path.slice(at + 1)];
}
