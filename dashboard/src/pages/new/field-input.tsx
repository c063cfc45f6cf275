/** One field of the form: its label, unit, default, help, and what is wrong with it. */

import type { ComponentChildren } from "preact";
import { texts } from "../../i18n";
import type { Field } from "./field";
import { ChoiceSelect, Choices, PresetSelect } from "./field-choices";

export interface FieldFault {
  message: string;
  remedy?: string | null | undefined;
  /** Texts of the service are in English. */
  isEnglish: boolean;
}

export interface FieldInputProps {
  field: Field;
  /** Null where the body has something that the field cannot show. */
  text: string | null;
  /** What a preset has in this field. */
  preset?: string | undefined;
  faults: readonly FieldFault[];
  onText: (field: Field, text: string) => void;
}

export interface ControlProps {
  id: string;
  field: Field;
  text: string;
  placeholder: string;
  isInvalid: boolean;
  describedBy: string;
  onText: (text: string) => void;
}

export function fieldId(path: string): string {
  return `field-${path.replaceAll(".", "-")}`;
}

export function FieldInput(props: FieldInputProps) {
  const { field, faults } = props;
  const t = texts().form;
  const id = fieldId(field.path);
  const [label, help] = t.fields[field.text];
  const placeholder = props.preset ?? field.standard;
  const control: ControlProps = {
    id,
    field,
    text: props.text ?? "",
    placeholder: placeholder === undefined ? "" : t.standard(spoken(placeholder)),
    isInvalid: faults.length > 0,
    describedBy: `${id}-help${faults.length > 0 ? ` ${id}-faults` : ""}`,
    onText: (text) => props.onText(field, text),
  };
  const isGroup = CHECKED.has(field.type);
  return (
    <div class={`field ${faults.length > 0 ? "field-invalid" : ""}`}>
      {isGroup ? (
        <span class="field-label" id={`${id}-label`}>
          {label}
        </span>
      ) : (
        <label class="field-label" for={id}>
          {label}
          <Unit field={field} />
        </label>
      )}
      {props.text === null ? <InJson {...control} /> : <Control {...control} />}
      <p class="field-help" id={`${id}-help`}>
        {help}
      </p>
      {faults.length > 0 && (
        <ul class="field-faults" id={`${id}-faults`}>
          {faults.map((fault) => (
            <Fault key={fault.message} {...fault} />
          ))}
        </ul>
      )}
    </div>
  );
}

const CHECKED = new Set(["wholeChoices", "textChoices", "flagChoices"]);
const NUMERIC = new Set(["whole", "number"]);

function Control(props: ControlProps) {
  switch (props.field.type) {
    case "flag":
    case "choice":
      return <ChoiceSelect {...props} />;
    case "model":
    case "gpu":
      return <PresetSelect {...props} />;
    case "wholeChoices":
    case "textChoices":
    case "flagChoices":
      return <Choices {...props} />;
    default:
      return (
        <input
          id={props.id}
          type="text"
          inputMode={NUMERIC.has(props.field.type) ? "decimal" : "text"}
          autocomplete="off"
          spellcheck={false}
          value={props.text}
          placeholder={props.placeholder}
          aria-invalid={props.isInvalid}
          aria-describedby={props.describedBy}
          onInput={(event) => props.onText(event.currentTarget.value)}
        />
      );
  }
}

function InJson(props: ControlProps) {
  const t = texts().form;
  return (
    <p class="field-in-json">
      {t.inJson}{" "}
      <button type="button" class="quiet" id={props.id} onClick={() => props.onText("")}>
        {t.clear}
      </button>
    </p>
  );
}

function Unit(props: { field: Field }): ComponentChildren {
  const units: Record<string, string> = texts().form.units;
  const unit = props.field.unit === undefined ? undefined : units[props.field.unit];
  return unit === undefined ? null : <span class="faint"> ({unit})</span>;
}

function Fault(props: FieldFault) {
  return (
    <li lang={props.isEnglish ? "en" : undefined}>
      {props.message}
      {props.remedy && <span class="field-remedy"> {props.remedy}</span>}
    </li>
  );
}

/** A default as it is shown. */
function spoken(value: string): string {
  const t = texts().form;
  return value === "true" ? t.true : value === "false" ? t.false : value;
}
