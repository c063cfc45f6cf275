/** A request that one page leaves for the form of new plans. */

import type { Kind } from "./api/types";
import { href } from "./route";
import { readStored, store } from "./storage";

export interface Draft {
  kind: Kind;
  body: Record<string, unknown>;
}

const NAME = "loadmaster-draft";

/** Where the form takes the draft over. */
export function draftAddress(): string {
  return href(["new"], { draft: "1" });
}

export function leaveDraft(draft: Draft): void {
  store("session", NAME, JSON.stringify(draft));
}

/** The text of the draft that was left, which is gone then. */
export function takeDraftText(): string | null {
  const text = readStored("session", NAME);
  store("session", NAME, null);
  return text;
}
