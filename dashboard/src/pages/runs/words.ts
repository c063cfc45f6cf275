/** The words that the service has for runs, in the language that is shown. */

import { texts, wordIn } from "../../i18n";

export type RunWord = keyof ReturnType<typeof texts>["runs"]["names"];

export function runWord(kind: RunWord, word: string): string {
  return wordIn(texts().runs.names[kind], word);
}

const SHORT_ID = 8;

/** What people call a run: its name, or the beginning of its id. */
export function runName(run: { id: string; name: string | null }): string {
  return run.name ?? run.id.slice(0, SHORT_ID);
}
