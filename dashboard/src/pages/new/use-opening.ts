/** Opening what the address names: a former job, a draft of another page, a kind. */

import { useEffect, useState } from "preact/hooks";
import { fetchJob, fetchRequest } from "../../api/source";
import { texts } from "../../i18n";
import { route, setQuery } from "../../route";
import { form, isKind, openBody, setKind, takeDraft } from "./store";

/** What came of opening something. */
export type Notice =
  | { state: "opening" }
  | { state: "opened"; what: string }
  | { state: "wrong"; text: string }
  | { state: "failed"; error: unknown };

export interface Opening {
  notice: Notice | null;
  tell: (notice: Notice | null) => void;
}

export function useOpening(): Opening {
  const [notice, tell] = useState<Notice | null>(null);
  const query = route.value.query;
  const [from, draft, kind] = [query.get("from"), query.get("draft"), query.get("kind")];

  useEffect(() => {
    if (from === null && draft === null && isKind(kind) && kind !== form.value.kind) {
      setKind(kind);
    }
  }, [from, draft, kind]);

  useEffect(() => {
    const found = draft === null ? null : takeDraft();
    if (found) {
      openBody(found.kind, found.body);
      tell({ state: "opened", what: texts().form.start.draft });
    }
    if (draft !== null) {
      setQuery({ draft: undefined, kind: form.value.kind });
    }
  }, [draft]);

  useEffect(() => {
    if (from === null) {
      return;
    }
    const controller = new AbortController();
    tell({ state: "opening" });
    openJob(from, controller.signal)
      .then((what) => {
        tell({ state: "opened", what });
        setQuery({ from: undefined, kind: form.value.kind });
      })
      .catch((failure) => {
        if (!controller.signal.aborted) {
          tell({ state: "failed", error: failure });
        }
      });
    return () => controller.abort();
  }, [from]);

  return { notice, tell };
}

/** Returns what was opened, as people call it. */
async function openJob(id: string, signal: AbortSignal): Promise<string> {
  const [job, request] = await Promise.all([fetchJob(id, signal), fetchRequest(id, signal)]);
  if (isKind(job.kind)) {
    openBody(job.kind, request);
  }
  return job.name ?? id;
}
