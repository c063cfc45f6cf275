/** Fields where something is chosen: lists, presets, and sets of values to be ticked. */

import { texts } from "../../i18n";
import type { ControlProps } from "./field-input";
import { presets, presetsError } from "./presets";
import { partsOf } from "./values";

const FLAGS = ["true", "false"];

export function ChoiceSelect(props: ControlProps) {
  const t = texts().form;
  const choices = props.field.type === "flag" ? FLAGS : (props.field.choices ?? []);
  return (
    <select
      id={props.id}
      value={props.text}
      aria-invalid={props.isInvalid}
      aria-describedby={props.describedBy}
      onChange={(event) => props.onText(event.currentTarget.value)}
    >
      <option value="">{props.placeholder || t.standardOption}</option>
      {withShown(choices, props.text).map((choice) => (
        <option key={choice} value={choice}>
          {spoken(choice)}
        </option>
      ))}
    </select>
  );
}

/** Only names that the service has; without its list a name can be typed. */
export function PresetSelect(props: ControlProps) {
  const t = texts().form;
  const isModel = props.field.type === "model";
  const known = isModel ? presets.value?.models : presets.value?.gpus;
  if (!known && presetsError.value !== null) {
    return (
      <>
        <input
          id={props.id}
          type="text"
          autocomplete="off"
          value={props.text}
          aria-invalid={props.isInvalid}
          aria-describedby={props.describedBy}
          onInput={(event) => props.onText(event.currentTarget.value)}
        />
        <p class="field-help">{t.presetsFailed}</p>
      </>
    );
  }
  const names = (known ?? []).map((preset) => preset.name);
  return (
    <select
      id={props.id}
      value={props.text}
      aria-invalid={props.isInvalid}
      aria-describedby={props.describedBy}
      onChange={(event) => props.onText(event.currentTarget.value)}
    >
      <option value="">{t.ownFields}</option>
      {withShown(names, props.text).map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}

export function Choices(props: ControlProps) {
  const chosen = partsOf(props.text);
  function tick(choice: string, isTicked: boolean): void {
    const choices = withShown(props.field.choices ?? [], ...chosen);
    const ticked = choices.filter((name) => (name === choice ? isTicked : chosen.includes(name)));
    props.onText(ticked.join(", "));
  }
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset within a grid of fields would need a legend.
    <div
      class="field-choices"
      role="group"
      id={props.id}
      tabIndex={-1}
      aria-labelledby={`${props.id}-label`}
      aria-describedby={props.describedBy}
    >
      {withShown(props.field.choices ?? [], ...chosen).map((choice) => (
        <label key={choice}>
          <input
            type="checkbox"
            checked={chosen.includes(choice)}
            aria-invalid={props.isInvalid}
            onChange={(event) => tick(choice, event.currentTarget.checked)}
          />{" "}
          {spoken(choice)}
        </label>
      ))}
    </div>
  );
}

/** The choices, and what is in the body without being one: it is shown as it is. */
function withShown(choices: readonly string[], ...shown: readonly string[]): readonly string[] {
  return [...choices, ...shown.filter((text) => text !== "" && !choices.includes(text))];
}

function spoken(choice: string): string {
  const t = texts().form;
  return choice === "true" ? t.true : choice === "false" ? t.false : choice;
}
