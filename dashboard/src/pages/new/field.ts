/** What a field of the form is. */

import type { FieldText, SectionText } from "../../i18n/en/form";
import { getAt } from "./body";
import type { JsonObject } from "./json-text";
import type { FieldType } from "./values";

export interface Field {
  /** Where its value is in the body. */
  path: string;
  type: FieldType;
  text: FieldText;
  /** What the service takes where it is empty, if that is always the same. */
  standard?: string;
  choices?: readonly string[];
  unit?: string;
}

export interface Section {
  title: SectionText;
  /** Those that are needed most; the others are behind "more". */
  main: readonly Field[];
  more: readonly Field[];
}

export type Options = Pick<Field, "standard" | "choices" | "unit">;

export function field(
  path: string,
  type: FieldType,
  text: FieldText,
  options: Options = {},
): Field {
  return { path, type, text, ...options };
}

export function hasPreset(body: JsonObject, at: string): boolean {
  return getAt(body, `${at}.preset`) !== undefined;
}
