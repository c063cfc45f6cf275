/** The language of what is shown, and its texts. */

import { signal } from "@preact/signals";
import { readStored, store } from "../storage";
import * as en from "./en";
import * as zh from "./zh";

export type Language = "en" | "zh";
export type Messages = typeof en;

const TEXTS: Record<Language, Messages> = { en, zh };
const NAME = "loadmaster-language";

export const LANGUAGES: readonly { language: Language; name: string }[] = [
  { language: "en", name: "English" },
  { language: "zh", name: "简体中文" },
];

export const language = signal<Language>(initialLanguage());

export function setLanguage(chosen: Language): void {
  store("local", NAME, chosen);
  language.value = chosen;
}

/** The texts of the language that is shown; a component that reads them follows a change. */
export function texts(): Messages {
  return TEXTS[language.value];
}

/** The word for a name that the service has; what is not known stays as it came. */
export function wordIn(names: Readonly<Record<string, string>>, name: string): string {
  return Object.hasOwn(names, name) ? (names[name] ?? name) : name;
}

/** The language's tag, for `Intl` and the page. */
export function locale(): string {
  return language.value === "zh" ? "zh-Hans" : "en";
}

function initialLanguage(): Language {
  const kept = readStored("local", NAME);
  if (kept === "en" || kept === "zh") {
    return kept;
  }
  return globalThis.navigator?.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}
