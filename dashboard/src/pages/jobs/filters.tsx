/** The filters of the list. They are in the page's address. */

import { useEffect, useRef } from "preact/hooks";
import type { JobState, Kind } from "../../api/types";
import { texts } from "../../i18n";
import type { JobFilters } from "../../live/job-changes";
import { route, setQuery } from "../../route";

const STATES: readonly JobState[] = [
  "queued",
  "running",
  "succeeded",
  "infeasible",
  "failed",
  "cancelled",
];
const KINDS: readonly Kind[] = ["pipeline", "sharding", "training"];
const TYPING_PAUSE_MS = 400;
const LONGEST_TEXT = 200;

export function filtersOfAddress(): JobFilters {
  const { query } = route.value;
  const value = (name: string) => query.get(name) ?? undefined;
  return {
    state: value("state"),
    kind: value("kind"),
    name: value("name"),
    model: value("model"),
    tag: value("tag"),
  };
}

export function clearFilters(): void {
  setQuery({
    state: undefined,
    kind: undefined,
    name: undefined,
    model: undefined,
    tag: undefined,
  });
}

export function Filters(props: { filters: JobFilters }) {
  const t = texts().jobs.filters;
  const { common } = texts();
  const { filters } = props;
  const isAny = Object.values(filters).some(Boolean);
  return (
    // biome-ignore lint/a11y/useSemanticElements: the element `search` is younger than the browsers.
    <form
      role="search"
      aria-label={t.label}
      class="job-filters"
      onSubmit={(event) => event.preventDefault()}
    >
      <label>
        {t.state}
        <select
          value={filters.state ?? ""}
          onChange={(event) => setQuery({ state: event.currentTarget.value })}
        >
          <option value="">{t.anyState}</option>
          {STATES.map((state) => (
            <option key={state} value={state}>
              {common.states[state]}
            </option>
          ))}
        </select>
      </label>
      <label>
        {t.kind}
        <select
          value={filters.kind ?? ""}
          onChange={(event) => setQuery({ kind: event.currentTarget.value })}
        >
          <option value="">{t.anyKind}</option>
          {KINDS.map((kind) => (
            <option key={kind} value={kind}>
              {common.kinds[kind]}
            </option>
          ))}
        </select>
      </label>
      <TextFilter name="name" label={t.name} hint={t.nameHint} value={filters.name ?? ""} />
      <TextFilter name="model" label={t.model} hint={t.modelHint} value={filters.model ?? ""} />
      <TextFilter name="tag" label={t.tag} hint={t.tagHint} value={filters.tag ?? ""} />
      {isAny && (
        <button type="button" onClick={clearFilters}>
          {t.clear}
        </button>
      )}
    </form>
  );
}

/** Goes into the address once nothing was typed for a moment, or on Enter. */
function TextFilter(props: { name: string; label: string; hint: string; value: string }) {
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    if (input.current && input.current.value.trim() !== props.value) {
      input.current.value = props.value;
    }
  }, [props.value]);
  useEffect(() => () => clearTimeout(timer.current), []);

  function use(): void {
    clearTimeout(timer.current);
    const value = input.current?.value.trim();
    if (value !== props.value) {
      setQuery({ [props.name]: value });
    }
  }

  return (
    <label>
      {props.label}
      <input
        ref={input}
        type="search"
        placeholder={props.hint}
        maxLength={LONGEST_TEXT}
        defaultValue={props.value}
        onInput={() => {
          clearTimeout(timer.current);
          timer.current = setTimeout(use, TYPING_PAUSE_MS);
        }}
        onChange={use}
      />
    </label>
  );
}
