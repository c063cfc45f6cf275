import type { Searched } from "./types";

export interface DroppedRule {
  rule: string;
  count: number;
  why: string;
}

/** The rules that dropped something, the most effective one first. */
export function droppedRules(searched: Searched): DroppedRule[] {
  return Object.entries(searched.dropped ?? {})
    .map(([rule, count]) => ({ rule, count, why: searched.rules?.[rule] ?? "" }))
    .sort((a, b) => b.count - a.count);
}
