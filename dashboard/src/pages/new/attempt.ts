/** Posting a request so that sending it again makes no second job. */

import { ApiError, ask, Unreachable } from "../../api/client";
import type { Kind } from "../../api/types";
import { ADDRESSES } from "./commands";

export interface Submission {
  id: string;
  /** `miss`, `joined` (a solve in flight) or `hit` (a stored answer). */
  cache: string;
}

interface Attempt {
  kind: Kind;
  body: string;
  fresh: boolean;
  key: string;
}

/** The key of an attempt that is not known to be over goes with the same request again. */
export class Attempts {
  private open: Attempt | null = null;

  constructor(private readonly newKey: () => string = randomKey) {}

  async post(kind: Kind, body: string, fresh: boolean): Promise<Submission> {
    const before = this.open;
    const isSame = before?.kind === kind && before.body === body && before.fresh === fresh;
    const attempt = isSame ? before : { kind, body, fresh, key: this.newKey() };
    this.open = attempt;
    try {
      const answer = await ask<Submission>(ADDRESSES[kind], {
        method: "POST",
        body,
        headers: {
          "Idempotency-Key": attempt.key,
          ...(fresh ? { "Cache-Control": "no-cache" } : {}),
        },
      });
      this.open = null;
      return answer.body;
    } catch (error) {
      this.open = isInDoubt(error) ? attempt : null;
      throw error;
    }
  }
}

/** Whether the job may have been made although there was no good answer. */
export function isInDoubt(error: unknown): boolean {
  return error instanceof Unreachable || (error instanceof ApiError && error.status >= 500);
}

/** `crypto.randomUUID` is there over HTTPS and on this machine only. */
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
