/** The plan among the classic schedules. */

import type { ComparisonRow, Shortage } from "../../api/types";
import { bubbleRatio, epilogueShare, isSteadySpan, offloadCount } from "./plan-facts";
import type { PipelineResult } from "./types";

export const OURS = "Loadmaster";

export interface Contender {
  key: string;
  name: string;
  placement: string | null;
  isOurs: boolean;
  hypothetical: boolean;
  /** Makespan, or the steady span where that is the objective. */
  objectiveNs: number | null;
  isSteadySpan: boolean;
  /** What the makespan is made of, on average over the devices; null where that is not known. */
  split: Split | null;
  /** The epilogue and idle time, as shares of the makespan. */
  bubbleRatio: number | null;
  /** How much longer than the plan, as a share of it; null where that would be no comparison. */
  slowerBy: number | null;
  peakBytes: number | null;
  offloads: number | null;
  fits: boolean;
  reason: string | null;
  shortage: Shortage | null;
}

/** Shares of the devices' time that add up to one. */
export interface Split {
  makespanNs: number;
  /** In F, B and W. */
  compute: number;
  /** In gradient reduction and optimizer step. */
  epilogue: number;
  idle: number;
}

/** The plan first, then the classic schedules as the result lists them. */
export function contenders(result: PipelineResult): Contender[] {
  const ours = ownRow(result);
  const ownNs = objective(ours, result);
  return [ours, ...(result.comparison ?? [])].map((row, index) =>
    contender(row, index === 0, ownNs, result),
  );
}

/** Those with a figure, the shortest first. */
export function byObjective(all: readonly Contender[]): Contender[] {
  return all
    .filter((entry) => entry.objectiveNs !== null)
    .sort((a, b) => (a.objectiveNs ?? 0) - (b.objectiveNs ?? 0));
}

/** The best classic schedule that fits. */
export function bestClassic(all: readonly Contender[]): Contender | null {
  return byObjective(all).find((entry) => !entry.isOurs && entry.fits) ?? null;
}

function ownRow(result: PipelineResult): ComparisonRow {
  const { problem, schedule } = result;
  return {
    name: OURS,
    placement: result.provenance.placement ?? null,
    hypothetical: false,
    makespan_ns: schedule?.makespan_ns ?? null,
    steady_span_ns: schedule?.steady_span_ns ?? null,
    bubble_ratio: problem && schedule ? bubbleRatio(problem, schedule) : null,
    peak_memory_bytes: schedule?.peak_memory_bytes ?? null,
    offloads: schedule ? offloadCount(schedule) : null,
    fits: true,
    reason: null,
  };
}

function contender(
  row: ComparisonRow,
  isOurs: boolean,
  ownNs: number | null,
  result: PipelineResult,
): Contender {
  const objectiveNs = objective(row, result);
  const isComparable = !isOurs && row.fits && objectiveNs !== null && ownNs;
  return {
    key: isOurs ? OURS : `${row.name} ${row.placement}`,
    name: row.name,
    placement: row.placement,
    isOurs,
    hypothetical: row.hypothetical,
    objectiveNs,
    isSteadySpan: isSteadySpan(result),
    split: splitOf(row, result),
    bubbleRatio: row.bubble_ratio,
    slowerBy: isComparable ? ((objectiveNs ?? 0) - ownNs) / ownNs : null,
    peakBytes: row.peak_memory_bytes?.length ? Math.max(...row.peak_memory_bytes) : null,
    offloads: row.offloads,
    fits: row.fits,
    reason: row.reason,
    shortage: row.shortage ?? null,
  };
}

function splitOf(row: ComparisonRow, result: PipelineResult): Split | null {
  const { makespan_ns: makespanNs, bubble_ratio: bubble } = row;
  if (makespanNs === null || bubble === null) {
    return null;
  }
  const known = result.problem ? epilogueShare(result.problem, makespanNs) : 0;
  const epilogue = Math.min(bubble, known);
  return { makespanNs, compute: 1 - bubble, epilogue, idle: bubble - epilogue };
}

function objective(row: ComparisonRow, result: PipelineResult): number | null {
  return isSteadySpan(result) ? row.steady_span_ns : row.makespan_ns;
}
