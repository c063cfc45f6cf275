import { ask } from "../api/client";
import { noteServiceTime } from "./clock";

export interface Current<T> {
  value: T;
  tag: string | null;
  /** After which the service wants to be asked again, if it says so. */
  retryAfterS: number | null;
}

/** What is at an address now; the same value where nothing has changed from what was there before. */
export async function askAgain<T>(
  path: string,
  before: Pick<Current<T>, "value" | "tag"> | null | undefined,
  signal: AbortSignal,
): Promise<Current<T>> {
  const { status, body, headers } = await ask<T>(path, {
    signal,
    headers: before?.tag ? { "If-None-Match": before.tag } : {},
  });
  noteServiceTime(headers);
  return {
    value: status === 304 && before ? before.value : body,
    tag: headers.get("ETag"),
    retryAfterS: Number(headers.get("Retry-After")) || null,
  };
}
