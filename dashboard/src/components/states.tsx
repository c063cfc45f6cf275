/** What a view shows while there is nothing else to show: loading, empty, an error, old news. */

import type { ComponentChildren } from "preact";
import { ApiError, Unreachable } from "../api/client";
import { texts } from "../i18n";

export function Loading(props: { what?: string }) {
  return (
    <div class="state" role="status">
      <span class="spinner" aria-hidden="true" />
      <span>{props.what ?? texts().common.loading}</span>
    </div>
  );
}

export function Empty(props: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state state-empty">
      <p class="state-title">{props.title}</p>
      {props.children}
    </div>
  );
}

/** An error with what can be done about it. */
export function Failure(props: { error: unknown; onRetry?: (() => void) | undefined }) {
  const t = texts().common;
  return (
    <div class="state state-error" role="alert">
      <p class="state-title">{titleOf(props.error)}</p>
      <p>{detailOf(props.error)}</p>
      {props.error instanceof ApiError && props.error.errors.length > 0 && (
        <FieldProblems error={props.error} />
      )}
      {props.onRetry && (
        <button type="button" onClick={props.onRetry}>
          {t.retry}
        </button>
      )}
    </div>
  );
}

export function FieldProblems(props: { error: ApiError }) {
  return (
    <ul class="field-problems">
      {props.error.errors.map((problem) => (
        <li key={`${problem.path} ${problem.message}`}>
          <code>{problem.path || "–"}</code> {problem.message}
          {problem.remedy && <span class="faint"> {problem.remedy}</span>}
        </li>
      ))}
    </ul>
  );
}

/** Said above what is shown when it may be out of date. */
export function Stale(props: { seconds: number }) {
  return (
    <p class="banner banner-stale" role="status">
      {texts().common.stale(Math.round(props.seconds))}
    </p>
  );
}

function titleOf(error: unknown): string {
  const t = texts().common;
  if (error instanceof Unreachable) {
    return t.unreachable;
  }
  return error instanceof ApiError ? error.title : t.failed;
}

function detailOf(error: unknown): string {
  if (error instanceof Unreachable) {
    return texts().common.unreachableRemedy;
  }
  return error instanceof Error ? error.message : String(error);
}
