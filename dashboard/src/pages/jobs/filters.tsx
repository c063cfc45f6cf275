/** The filters of the list. They are in the page's address. */

import { useEffect, useRef } from "preact/hooks";
import type { JobState, Kind } from "../../api/types";
import { ChoiceFilter, FilterForm } from "../../components/filter-form";
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
    <FilterForm label={t.label}>
      <ChoiceFilter
        name="state"
        label={t.state}
        value={filters.state}
        any={t.anyState}
        choices={STATES}
        word={(state) => common.states[state]}
      />
      <ChoiceFilter
        name="kind"
        label={t.kind}
        value={filters.kind}
        any={t.anyKind}
        choices={KINDS}
        word={(kind) => common.kinds[kind]}
      />
      <TextFilter name="name" label={t.name} hint={t.nameHint} value={filters.name ?? ""} />
      <TextFilter name="model" label={t.model} hint={t.modelHint} value={filters.model ?? ""} />
      <TextFilter name="tag" label={t.tag} hint={t.tagHint} value={filters.tag ?? ""} />
      {isAny && (
        <button type="button" onClick={clearFilters}>
          {t.clear}
        </button>
      )}
    </FilterForm>
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
