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
  /** The last preview of what was opened, which may be of an earlier state. */
  preview: Preview | null;
}

/** What a check is about: a kind of plan, and how often something else was opened. */
interface Subject {
  kind: Kind;
  opening: number;
}

/** `body` is null while there is none to be asked about. */
export function useCheck(kind: Kind, body: string | null, opening: number): Checked {
  const subject: Subject = { kind, opening };
  const [checked, setChecked] = useState<Checked & Subject>({ ...subject, ...UNCHECKED });
  const subjectNow = useRef(subject);
  subjectNow.current = subject;
  const validator = useRef<Validator<Preview> | null>(null);
  const key = apiKey.value;

  useEffect(() => {
    const made = new Validator<Preview>({
      ask: validate,
      tell: (check) => setChecked((before) => following(before, subjectNow.current, check)),
      retryAfterMs,
    });
    validator.current = made;
    return () => made.end();
  }, []);

  useEffect(() => {
    validator.current?.change(
      body === null ? null : { address: `${ADDRESSES[kind]}?validate_only=true`, body },
    );
  }, [kind, body, opening, key]);

  return isSame(checked, subject) ? checked : UNCHECKED;
}

const UNCHECKED: Checked = { check: null, preview: null };

function isSame(one: Subject, other: Subject): boolean {
  return one.kind === other.kind && one.opening === other.opening;
}

function following(
  before: Checked & Subject,
  subject: Subject,
  check: Check<Preview>,
): Checked & Subject {
  const preview = isSame(before, subject) ? before.preview : null;
  return { ...subject, check, preview: check.state === "accepted" ? check.preview : preview };
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
