/** Two jobs that are ticked, to compare their plans. */

import type { Signal } from "@preact/signals";
import type { JobView } from "../../api/types";
import { texts } from "../../i18n";
import { hasPlan } from "../../live/objective";
import { href } from "../../route";
import { shownName } from "./names";

/** Ids in the order in which they were ticked. */
export type Choice = Signal<readonly string[]>;

/** Ticks or unticks one; of three the first is unticked. */
export function toggled(chosen: readonly string[], id: string): readonly string[] {
  return chosen.includes(id) ? chosen.filter((other) => other !== id) : [...chosen, id].slice(-2);
}

export function ChoiceBox(props: { job: JobView; choice: Choice }) {
  const { job, choice } = props;
  return (
    <input
      type="checkbox"
      aria-label={texts().jobs.select(shownName(job))}
      disabled={!hasPlan(job)}
      checked={choice.value.includes(job.id)}
      onChange={() => {
        choice.value = toggled(choice.value, job.id);
      }}
    />
  );
}

export function ChoiceBar(props: { choice: Choice }) {
  const t = texts().jobs;
  const [a, b] = props.choice.value;
  return (
    <div class="row choice-bar">
      <span role="status">{t.compareHint(props.choice.value.length)}</span>
      {a !== undefined && b !== undefined && (
        <a class="button primary" href={href(["compare"], { a, b })}>
          {t.compareTwo}
        </a>
      )}
      {a !== undefined && (
        <button
          type="button"
          onClick={() => {
            props.choice.value = [];
          }}
        >
          {t.clearChoice}
        </button>
      )}
    </div>
  );
}
