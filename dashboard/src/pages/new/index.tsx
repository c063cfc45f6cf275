/** A new plan: the form, what the service says to it, and the same as JSON and on the command line. */

import { useEffect, useMemo } from "preact/hooks";
import { ApiError } from "../../api/client";
import { apiKey } from "../../api/key";
import type { Kind } from "../../api/types";
import { texts } from "../../i18n";
import { setQuery } from "../../route";
import { CheckPanel, Verdict } from "./check-panel";
import { KindChoice, SourceChoice } from "./choices";
import { CommandsPanel } from "./commands-panel";
import type { Field } from "./field";
import type { FieldFault } from "./field-input";
import { sectionsOf } from "./fields";
import { furtherFields } from "./further";
import { JsonPanel } from "./json-panel";
import { loadPresets } from "./presets";
import { type PlacedProblem, placed } from "./problem-paths";
import { Sections } from "./sections";
import { jsonFault, type Sheet, unread, withJson, withText } from "./sheet";
import { StartPanel } from "./start-panel";
import { form, isNotKept, keep, openings, setKind, setSheet } from "./store";
import { SubmitPanel } from "./submit-panel";
import { useCheck } from "./use-check";
import { useOpening } from "./use-opening";
import type { Wanted } from "./values";
import "../../styles/form.css";

export function NewPage() {
  const t = texts();
  const { kind, sheets, fresh } = form.value;
  const sheet = sheets[kind];
  const sections = useMemo(() => sectionsOf(kind, sheet.body), [kind, sheet.body]);
  const fields = useMemo(
    () => sections.flatMap((section) => [...section.main, ...section.more]),
    [sections],
  );
  const fault = useMemo(() => jsonFault(sheet), [sheet.json]);
  const unreadTexts = unread(sheet, fields);
  const isUnread = fault !== null || unreadTexts.size > 0;
  const body = useMemo(() => JSON.stringify(sheet.body), [sheet.body]);
  const checked = useCheck(kind, isUnread ? null : body, openings.value);
  const problems = problemsOf(checked.check, fields);
  const findings = { checked, problems, unread: unreadTexts.size, hasJsonFault: fault !== null };
  const further = useMemo(() => furtherFields(sheet.body, fields), [sheet.body, fields]);
  const opening = useOpening();
  useKeeping();
  usePresets();

  function choose(chosen: Kind): void {
    setKind(chosen);
    opening.tell(null);
    setQuery({ kind: chosen, from: undefined });
  }

  return (
    <>
      <h1>{t.common.newPlan}</h1>
      <StartPanel
        kind={kind}
        notice={opening.notice}
        onNotice={(notice) => {
          opening.tell(notice);
          setQuery({ kind: form.value.kind, from: undefined });
        }}
        onJob={(id) => setQuery({ from: id })}
      />
      <KindChoice kind={kind} onKind={choose} />
      <div class="form-columns">
        <form onSubmit={(event) => event.preventDefault()}>
          {fault && <p class="banner banner-stale">{t.form.json.blocked}</p>}
          <fieldset class="form-all" disabled={fault !== null} aria-label={t.common.newPlan}>
            <SourceChoice kind={kind} sheet={sheet} onSheet={setSheet} />
            <Sections
              kind={kind}
              sheet={sheet}
              sections={sections}
              faults={faultsOf(unreadTexts, problems)}
              onText={onText}
            />
          </fieldset>
        </form>
        <div>
          <SubmitPanel
            kind={kind}
            body={body}
            fields={fields}
            fresh={fresh}
            onFresh={(wanted) => {
              form.value = { ...form.value, fresh: wanted };
            }}
            hindrance={hindranceOf(fault !== null, unreadTexts, problems, fields)}
            isNotKept={isNotKept.value}
          >
            <Verdict {...findings} />
          </SubmitPanel>
          <CheckPanel {...findings} />
          <JsonPanel
            sheet={sheet}
            fault={fault}
            further={further}
            onJson={onJson}
            onDiscard={() => setSheet({ ...sheet, json: null })}
          />
          <CommandsPanel kind={kind} sheet={sheet} fresh={fresh} />
        </div>
      </div>
    </>
  );
}

function shownSheet(): Sheet {
  return form.value.sheets[form.value.kind];
}

function onText(field: Field, text: string): void {
  setSheet(withText(shownSheet(), field, text));
}

function onJson(text: string): void {
  setSheet(withJson(shownSheet(), form.value.kind, text));
}

function problemsOf(
  check: ReturnType<typeof useCheck>["check"],
  fields: readonly Field[],
): readonly PlacedProblem[] {
  return check?.state === "failed" && check.error instanceof ApiError
    ? placed(check.error.errors, fields)
    : [];
}

/** Why it cannot be sent as it is; null where nothing is known to be wrong. */
function hindranceOf(
  hasJsonFault: boolean,
  unreadTexts: ReadonlyMap<string, Wanted>,
  problems: readonly PlacedProblem[],
  fields: readonly Field[],
): string | null {
  const t = texts().form;
  if (hasJsonFault) {
    return t.submit.wrongJson;
  }
  const wrong = unreadTexts.size > 0 ? [...unreadTexts.keys()] : problems.map(placeOf);
  const labels = wrong.map((path) => {
    const field = fields.find((one) => one.path === path);
    return field ? t.fields[field.text][0] : path;
  });
  return wrong.length === 0 ? null : t.submit.wrongFields([...new Set(labels)].join(t.submit.and));
}

function placeOf(problem: PlacedProblem): string {
  return problem.field ?? problem.path;
}

/** What is wrong with each field: its text is no value, or the service does not accept it. */
function faultsOf(
  unreadTexts: ReadonlyMap<string, Wanted>,
  problems: readonly PlacedProblem[],
): Map<string, FieldFault[]> {
  const wanted = texts().form.wanted;
  const faults = new Map<string, FieldFault[]>();
  const add = (path: string, fault: FieldFault) =>
    faults.set(path, [...(faults.get(path) ?? []), fault]);
  for (const [path, type] of unreadTexts) {
    add(path, { message: wanted[type], isEnglish: false });
  }
  for (const { field, message, remedy } of problems) {
    if (field !== null && !unreadTexts.has(field)) {
      add(field, { message, remedy, isEnglish: true });
    }
  }
  return faults;
}

const KEPT_AFTER_MS = 200;

/** Keep what is typed, soon after it is, and when the page is left. */
function useKeeping(): void {
  const state = form.value;
  useEffect(() => {
    const timer = setTimeout(keep, KEPT_AFTER_MS);
    return () => clearTimeout(timer);
  }, [state]);
  useEffect(() => {
    addEventListener("pagehide", keep);
    return () => {
      removeEventListener("pagehide", keep);
      keep();
    };
  }, []);
}

function usePresets(): void {
  const key = apiKey.value;
  useEffect(() => {
    const controller = new AbortController();
    void loadPresets(controller.signal);
    return () => controller.abort();
  }, [key]);
}
