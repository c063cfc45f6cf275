/** The words that the service has for runs, in the language that is shown. */

import { texts } from "../../i18n";

export type RunWord = keyof ReturnType<typeof texts>["runs"]["names"];

/** What is not known stays as it came. */
export function runWord(kind: RunWord, word: string): string {
  const names: Record<string, string> = texts().runs.names[kind];
  return Object.hasOwn(names, word) ? (names[word] ?? word) : word;
}

const SHORT_ID = 8;

/** What people call a run: its name, or the beginning of its id. */
export function runName(run: { id: string; name: string | null }): string {
  return run.name ?? run.id.slice(0, SHORT_ID);
}
