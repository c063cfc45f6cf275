import type { Kind } from "../../api/types";
import { type Draft, draftAddress, leaveDraft } from "../../draft";
import { texts } from "../../i18n";
import { setAt } from "../../pages/new/body";
import type { Json, JsonObject } from "../../pages/new/json-text";

/** Leads to the form with the request changed so that it fits. */
export function AskAgain(props: {
  kind: Kind;
  request: JsonObject;
  changes: Record<string, Json>;
  change: string;
}) {
  const t = texts().job.infeasible;
  return (
    <a
      href={draftAddress()}
      aria-label={t.askAgainWith(props.change)}
      onClick={() => leaveDraft(changedRequest(props.kind, props.request, props.changes))}
    >
      {t.askAgain}
    </a>
  );
}

/** The request with these values, by path; null leaves a field out. */
export function changedRequest(
  kind: Kind,
  request: JsonObject,
  changes: Record<string, Json>,
): Draft {
  const body = Object.entries(changes).reduce(
    (changed, [path, value]) => setAt(changed, path, value ?? undefined),
    request,
  );
  return { kind, body };
}
