/** What the service says about the form as one types. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, ask, Unreachable } from "../../api/client";
import { apiKey } from "../../api/key";
import type { Kind } from "../../api/types";
import { ADDRESSES } from "./commands";
import type { Preview } from "./preview-types";
import { type Check, type Question, Validator } from "./validator";

const RETRY_MS = 5000;

export interface Checked {
  check: Check<Preview> | null;
  /** The last preview of this kind, which may be of an earlier state. */
  preview: Preview | null;
}

/** `body` is null while there is none to be asked about. */
export function useCheck(kind: Kind, body: string | null): Checked {
  const [checked, setChecked] = useState<Checked & { kind: Kind }>({
    kind,
    check: null,
    preview: null,
  });
  const kindNow = useRef(kind);
  kindNow.current = kind;
  const validator = useRef<Validator<Preview> | null>(null);
  const key = apiKey.value;

  useEffect(() => {
    const made = new Validator<Preview>({
      ask: validate,
      tell: (check) => setChecked((before) => following(before, kindNow.current, check)),
      retryAfterMs,
    });
    validator.current = made;
    return () => made.end();
  }, []);

  useEffect(() => {
    validator.current?.change(
      body === null ? null : { address: `${ADDRESSES[kind]}?validate_only=true`, body },
    );
  }, [kind, body, key]);

  return checked.kind === kind ? checked : { check: null, preview: null };
}

function following(
  before: Checked & { kind: Kind },
  kind: Kind,
  check: Check<Preview>,
): Checked & { kind: Kind } {
  const preview = before.kind === kind ? before.preview : null;
  return { kind, check, preview: check.state === "accepted" ? check.preview : preview };
}

async function validate(question: Question, signal: AbortSignal): Promise<Preview> {
  const answer = await ask<Preview>(question.address, {
    method: "POST",
    body: question.body,
    signal,
  });
  return answer.body;
}

function retryAfterMs(error: unknown): number | null {
  if (error instanceof Unreachable) {
    return RETRY_MS;
  }
  if (error instanceof ApiError && (error.status === 429 || error.status === 503)) {
    return error.retryAfterS === null ? RETRY_MS : error.retryAfterS * 1000;
  }
  return null;
}
