/** How an operator is split over its devices, as the name of its strategy says. */

export interface Split {
  data: number;
  row: number;
  column: number;
  /** Devices that repeat the others' work. */
  spare: number;
  isSequenceSplit: boolean;
}

/** Which of data (D), row (R) and column (C) are split at all; W: the operator stays whole. */
export const SPLIT_KINDS = ["D", "R", "C", "DR", "DC", "RC", "DRC", "W"] as const;
export type SplitKind = (typeof SPLIT_KINDS)[number];

const NAME = /^d(\d+)-r(\d+)-c(\d+)((?:-[a-z0-9]+)*)$/;

/** Null for a name that is no split, such as one of a later planner. */
export function splitOf(strategy: string): Split | null {
  const match = NAME.exec(strategy);
  if (!match) {
    return null;
  }
  const suffixes = (match[4] ?? "").split("-");
  const spare = suffixes.find((suffix) => /^x\d+$/.test(suffix));
  return {
    data: Number(match[1]),
    row: Number(match[2]),
    column: Number(match[3]),
    spare: spare ? Number(spare.slice(1)) : 1,
    isSequenceSplit: suffixes.includes("sp"),
  };
}

export function splitKind(split: Split): SplitKind {
  const letters = [
    split.data > 1 ? "D" : "",
    split.row > 1 ? "R" : "",
    split.column > 1 ? "C" : "",
  ].join("");
  return letters === "" ? "W" : (letters as SplitKind);
}

/** As people read it: `d2 r1 c4`, with what repeats the work. */
export function splitText(strategy: string): string {
  const split = splitOf(strategy);
  if (!split) {
    return strategy;
  }
  const repeated = split.spare > 1 ? ` ×${split.spare}` : "";
  return `d${split.data} r${split.row} c${split.column}${repeated}`;
}
