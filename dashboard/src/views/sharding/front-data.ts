/** The front of redundancy against communication, as points of a chart. */

import { paretoFront } from "../../charts/pareto";
import type { Planned } from "./model";
import type { FrontPoint } from "./types";

export type FrontSeries = "fits" | "exceeds" | "unknown" | "chosen" | "sweep" | "baselines";

export interface Dot {
  redundant: number;
  sent: number;
  name: string;
  /** The point of the front, where it is one. */
  point: number | null;
}

/** The front in the order of redundancy: the order in which it is stepped through. */
export function orderedFront(points: readonly FrontPoint[]): FrontPoint[] {
  return [...points].sort((a, b) => a.redundant_bytes - b.redundant_bytes);
}

export function frontDots(
  part: Planned,
  points: readonly FrontPoint[],
  planName: string,
): Record<FrontSeries, Dot[]> {
  const dots: Record<FrontSeries, Dot[]> = {
    fits: [],
    exceeds: [],
    unknown: [],
    chosen: [],
    sweep: [],
    baselines: [],
  };
  points.forEach((point, index) => {
    const series = point.fits === null ? "unknown" : point.fits ? "fits" : "exceeds";
    dots[series].push({
      redundant: point.redundant_bytes,
      sent: point.communication_bytes,
      name: "",
      point: index,
    });
  });
  const { plan } = part;
  if (plan.redundant_bytes !== undefined && plan.communication_bytes !== undefined) {
    dots.chosen.push({
      redundant: plan.redundant_bytes,
      sent: plan.communication_bytes + (plan.resharding_bytes ?? 0),
      name: planName,
      point: null,
    });
  }
  // The first weight is the plan's own.
  for (const row of (part.sweep ?? []).slice(1)) {
    if (row.redundant_bytes !== undefined && row.communication_bytes !== undefined) {
      dots.sweep.push({
        redundant: row.redundant_bytes,
        sent: row.communication_bytes,
        name: `α = ${row.alpha}`,
        point: null,
      });
    }
  }
  for (const row of part.baselines ?? []) {
    if (typeof row.redundant_bytes === "number" && typeof row.communication_bytes === "number") {
      dots.baselines.push({
        redundant: row.redundant_bytes,
        sent: row.communication_bytes + (row.resharding_bytes ?? 0),
        name: row.name,
        point: null,
      });
    }
  }
  return dots;
}

/** The dots that the front leads through: its points, or without them the plans of all weights. */
export function frontLine(dots: Record<FrontSeries, readonly Dot[]>): Dot[] {
  const points = [...dots.fits, ...dots.exceeds, ...dots.unknown];
  const known = points.length > 0 ? points : [...dots.chosen, ...dots.sweep];
  return paretoFront(known, (dot) => [dot.redundant, dot.sent]);
}

/** Which operators two plans split differently. */
export function differences<Strategy>(
  one: readonly Strategy[],
  other: readonly Strategy[],
): number[] {
  return one.flatMap((strategy, index) => (strategy === other[index] ? [] : [index]));
}
