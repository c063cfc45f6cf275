/** The words of the service in the language that is shown; what is not known stays as it came. */

import type { Shortage } from "../api/types";
import { bytes } from "../format";
import { texts, wordIn } from ".";

export type NameKind = keyof ReturnType<typeof texts>["service"]["names"];

/** A name with the numbers that are in it. */
export function serviceName(kind: NameKind, text: string): string {
  const names: Record<string, string> = texts().service.names[kind];
  const pattern = text.replace(/\d+/g, "#");
  if (Object.hasOwn(names, text) || !Object.hasOwn(names, pattern)) {
    return wordIn(names, text);
  }
  const numbers = text.match(/\d+/g) ?? [];
  return (names[pattern] ?? text).replace(/#/g, () => numbers.shift() ?? "#");
}

/** What a solve is at: a step, of a placement where it has that in parentheses. */
export function phaseName(phase: string): string {
  const [, step, placement] = /^(.+) \((\w+)\)$/.exec(phase) ?? [];
  return step === undefined || placement === undefined
    ? serviceName("step", phase)
    : `${serviceName("step", step)} (${serviceName("placement", placement)})`;
}

/** Why a rule drops configurations: its own words where there are none for it here. */
export function ruleWhy(rule: string, why: string): string {
  const known = serviceName("ruleWhy", rule);
  return known === rule ? why : known;
}

/** Why a schedule of the comparison does not fit, or a remark; null where there is nothing to say. */
export function comparisonReason(row: {
  reason: string | null;
  shortage?: Shortage | null | undefined;
}): string | null {
  const { reason, shortage } = row;
  if (shortage) {
    return outOfMemory(shortage);
  }
  return reason === null ? null : serviceName("reason", reason);
}

function outOfMemory(shortage: Shortage): string {
  const t = texts().service;
  const { device, host, needed_bytes: needed, limit_bytes: limit } = shortage;
  return t.outOfMemory(
    device === null ? t.host(host ?? 0) : t.device(device),
    bytes(needed),
    bytes(limit),
    bytes(needed - limit),
  );
}
