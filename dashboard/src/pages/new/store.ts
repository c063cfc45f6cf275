/** What is on the form, kept in this tab: a reload or another page does not lose it. */

import { signal } from "@preact/signals";
import type { Kind } from "../../api/types";
import { takeDraftText } from "../../draft";
import type { JsonObject } from "./json-text";
import { isObject } from "./json-text";
import { type Sheet, sheetOf } from "./sheet";
import { BODIES } from "./starters";

export interface FormState {
  kind: Kind;
  sheets: Readonly<Record<Kind, Sheet>>;
  fresh: boolean;
}

const NAME = "loadmaster-form";
export const KINDS: readonly Kind[] = ["pipeline", "sharding", "training"];

export const form = signal<FormState>(kept() ?? emptyForm());
/** Whether the browser refused to keep it, since it is too large. */
export const isNotKept = signal(false);
/** Counts what was opened: what the service said before is not about what is shown now. */
export const openings = signal(0);
/** What there was before something else was opened over it. */
export const before = signal<FormState | null>(null);

export function setSheet(sheet: Sheet): void {
  const { kind, sheets } = form.value;
  form.value = { ...form.value, sheets: { ...sheets, [kind]: sheet } };
}

export function setKind(kind: Kind): void {
  form.value = { ...form.value, kind };
}

/** Show another request; what was there can be brought back. */
export function openBody(kind: Kind, body: JsonObject): void {
  openSheet(kind, sheetOf(body));
}

/** The same for a text that is not JSON yet; there are no fields to show until it is. */
export function openText(kind: Kind, text: string): void {
  openSheet(kind, { ...sheetOf({}), json: text });
}

export function bringBack(): void {
  if (before.value) {
    const shown = form.value;
    form.value = before.value;
    before.value = shown;
    openings.value += 1;
  }
}

export function keep(): void {
  try {
    sessionStorage.setItem(NAME, JSON.stringify(form.value));
    isNotKept.value = false;
  } catch {
    isNotKept.value = true;
  }
}

/** A request that another page left to be shown here. */
export function takeDraft(): { kind: Kind; body: JsonObject } | null {
  const draft = parsed(takeDraftText());
  return isObject(draft) && isKind(draft.kind) && isObject(draft.body)
    ? { kind: draft.kind, body: draft.body }
    : null;
}

export function isKind(value: unknown): value is Kind {
  return KINDS.includes(value as Kind);
}

function openSheet(kind: Kind, sheet: Sheet): void {
  before.value = form.value;
  openings.value += 1;
  form.value = { ...form.value, kind, sheets: { ...form.value.sheets, [kind]: sheet } };
}

function emptyForm(): FormState {
  return {
    kind: "pipeline",
    sheets: {
      pipeline: sheetOf(BODIES.pipeline),
      sharding: sheetOf(BODIES.sharding),
      training: sheetOf(BODIES.training),
    },
    fresh: false,
  };
}

function kept(): FormState | null {
  const state = parsed(globalThis.sessionStorage?.getItem(NAME) ?? null);
  const isWhole =
    isObject(state) &&
    isKind(state.kind) &&
    isObject(state.sheets) &&
    KINDS.every((kind) => isSheet((state.sheets as JsonObject)[kind]));
  return isWhole ? (state as unknown as FormState) : null;
}

function isSheet(value: unknown): boolean {
  return isObject(value) && isObject(value.body) && isObject(value.typed) && isObject(value.aside);
}

function parsed(text: string | null): unknown {
  try {
    return text === null ? null : JSON.parse(text);
  } catch {
    return null;
  }
}
