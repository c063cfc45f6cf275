/** The words and numbers of diagnoses, in the language that is shown. */

import type { Evidence } from "../../api/types";
import { bytes, duration, number, percent } from "../../format";
import { texts, wordIn } from "../../i18n";

export type DiagnosisWord = keyof ReturnType<typeof texts>["diagnosis"]["names"];

export function diagnosisWord(kind: DiagnosisWord, word: string): string {
  return wordIn(texts().diagnosis.names[kind], word);
}

const DIGITS = 3;

/** A number in the unit that the service has for it. */
export function quantityText(value: number | string, unit: Evidence["unit"]): string {
  const t = texts().diagnosis;
  if (typeof value === "string") {
    return value;
  }
  switch (unit) {
    case "ns":
      return duration(value);
    case "bytes":
      return bytes(value);
    case "bytes_per_s":
      return t.perSecond(bytes(value));
    case "tokens_per_s":
      return t.tokensPerSecond(number(value));
    case "s":
      return t.seconds(number(value, DIGITS, 0));
    case "share":
      return percent(value, 1);
    default:
      return number(value, DIGITS, 0);
  }
}
