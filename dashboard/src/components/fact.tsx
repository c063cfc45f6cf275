/** Figures with their names, and words for what may not be known. */

import type { ComponentChildren } from "preact";
import { texts } from "../i18n";

/** A figure with its name; nothing where it is not known. */
export function Fact(props: { name: string; children?: ComponentChildren; help?: string }) {
  if (props.children === null || props.children === undefined) {
    return null;
  }
  return (
    <div>
      <dt title={props.help}>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

export function known(
  value: number | null | undefined,
  format: (value: number) => string,
): string | null {
  return value === null || value === undefined ? null : format(value);
}

/** What a word says of a thing that may not be known. */
export function yesNo(value: boolean | null | undefined): string {
  const t = texts().common;
  return value === null || value === undefined ? t.unknown : value ? `✓ ${t.yes}` : `✕ ${t.no}`;
}
