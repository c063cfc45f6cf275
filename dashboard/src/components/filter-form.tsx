/** What filters a list: each filter is in the page's address, under its name. */

import type { ComponentChildren } from "preact";
import { setQuery } from "../route";

export function FilterForm(props: { label: string; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: the element `search` is younger than the browsers.
    <form
      role="search"
      aria-label={props.label}
      class="job-filters"
      onSubmit={(event) => event.preventDefault()}
    >
      {props.children}
    </form>
  );
}

interface Props<Choice extends string> {
  name: string;
  label: string;
  value: string | undefined;
  /** What the choice of all is called. */
  any: string;
  choices: readonly Choice[];
  word: (choice: Choice) => string;
}

export function ChoiceFilter<Choice extends string>(props: Props<Choice>) {
  return (
    <label>
      {props.label}
      <select
        value={props.value ?? ""}
        onChange={(event) => setQuery({ [props.name]: event.currentTarget.value })}
      >
        <option value="">{props.any}</option>
        {props.choices.map((choice) => (
          <option key={choice} value={choice}>
            {props.word(choice)}
          </option>
        ))}
      </select>
    </label>
  );
}
