/** Whether the service would accept what is on the form, and as what it understands it. */

import { ApiError, Unreachable } from "../../api/client";
import { Failure } from "../../components/states";
import { texts } from "../../i18n";
import { fieldId } from "./field-input";
import { ShardingResolved, TrainingResolved } from "./preview-others";
import { PipelineResolved } from "./preview-pipeline";
import type { Preview } from "./preview-types";
import type { PlacedProblem } from "./problem-paths";
import type { Checked } from "./use-check";

export interface Findings {
  checked: Checked;
  problems: readonly PlacedProblem[];
  /** How many fields have a text that is no value. */
  unread: number;
  hasJsonFault: boolean;
}

export function CheckPanel(props: Findings) {
  const t = texts().form.check;
  const { check, preview } = props.checked;
  const isBlocked = props.hasJsonFault || props.unread > 0;
  const isCurrent = check?.state === "accepted" && !isBlocked;
  return (
    <section class="panel" aria-labelledby="check-title">
      <h2 id="check-title">{t.title}</h2>
      {check?.state === "failed" && !isBlocked && <Trouble {...props} error={check.error} />}
      {preview && (
        <div class={isCurrent ? "resolved" : "resolved resolved-outdated"}>
          <h3>{t.resolved}</h3>
          {!isCurrent && <p class="field-help">{t.outdated}</p>}
          <Resolved preview={preview} />
        </div>
      )}
    </section>
  );
}

/** In a line, whether the service would accept it. */
export function Verdict(props: Findings) {
  const t = texts().form.check;
  const { check } = props.checked;
  if (props.hasJsonFault) {
    return <p class="verdict verdict-bad">✕ {t.invalidJson}</p>;
  }
  if (props.unread > 0) {
    return <p class="verdict verdict-bad">✕ {t.local(props.unread)}</p>;
  }
  if (check === null || check.state === "checking") {
    return (
      <p class="verdict">
        <span class="spinner" aria-hidden="true" />
        {t.checking}
      </p>
    );
  }
  if (check.state === "accepted") {
    return fitsNowhere(check.preview) ? (
      <p class="verdict verdict-warn">⊘ {t.acceptedInVain}</p>
    ) : (
      <p class="verdict verdict-good">✓ {t.accepted}</p>
    );
  }
  if (check.error instanceof Unreachable) {
    return <p class="verdict verdict-warn">{t.unreachable}</p>;
  }
  return (
    <p class="verdict verdict-bad">
      ✕ {props.problems.length > 0 ? t.refused(props.problems.length) : t.failed}
    </p>
  );
}

function Trouble(props: Findings & { error: unknown }) {
  if (props.error instanceof Unreachable) {
    return null;
  }
  if (props.error instanceof ApiError && props.problems.length > 0) {
    return <Problems problems={props.problems} />;
  }
  return <Failure error={props.error} />;
}

/** All of them, also those at a field: each leads to its field. */
export function Problems(props: { problems: readonly PlacedProblem[] }) {
  return (
    <ul class="form-problems" lang="en">
      {props.problems.map((problem) => (
        <li key={`${problem.path} ${problem.message}`}>
          {problem.field === null ? (
            <code>{problem.path || "–"}</code>
          ) : (
            <button type="button" class="quiet" onClick={() => focusField(problem.field ?? "")}>
              <code>{problem.path}</code>
            </button>
          )}{" "}
          {problem.message}
          {problem.remedy && <span class="faint"> {problem.remedy}</span>}
        </li>
      ))}
    </ul>
  );
}

function Resolved(props: { preview: Preview }) {
  if ("placements" in props.preview) {
    return <PipelineResolved preview={props.preview} />;
  }
  return "graph" in props.preview ? (
    <ShardingResolved preview={props.preview} />
  ) : (
    <TrainingResolved preview={props.preview} />
  );
}

function fitsNowhere(preview: Preview): boolean {
  return "placements" in preview && preview.placements.every((entry) => !entry.feasible);
}

function focusField(path: string): void {
  const element = document.getElementById(fieldId(path));
  element?.scrollIntoView({ block: "center" });
  element?.focus({ preventScroll: true });
}
