/** What a job of each kind minimises, in words of the same form. */

import type { JobView, ProgressStep } from "../api/types";
import { scaleOf, written } from "../format";

export interface Objective {
  best: number | null;
  bound: number | null;
  unit: "ns" | "bytes";
}

/** Of a job or of a step of its solve. */
export function objectiveOf(kind: string, reached: JobView | ProgressStep): Objective {
  if (kind === "sharding") {
    return { best: reached.best_objective_bytes, bound: reached.lower_bound_bytes, unit: "bytes" };
  }
  const best = kind === "training" ? reached.best_step_time_ns : reached.best_makespan_ns;
  return { best, bound: reached.lower_bound_ns, unit: "ns" };
}

export function objectiveText(value: number, unit: Objective["unit"]): string {
  return written(value, scaleOf(unit === "bytes" ? "bytes" : "time", [value]));
}

export function isOver(job: JobView): boolean {
  return job.state !== "queued" && job.state !== "running";
}

/** Whether the job can be compared with others, or its plan shown. */
export function hasPlan(job: JobView): boolean {
  const { best } = objectiveOf(job.kind, job);
  return job.state === "succeeded" || (job.state === "cancelled" && best !== null);
}

/** How long its solver has worked by now, where the job was told at `seenAt`. */
export function spentSeconds(job: JobView, seenAt: number, at: number): number {
  if (job.state !== "running") {
    return job.spent_s;
  }
  return job.spent_s + (job.heartbeat_age_s ?? 0) + Math.max(0, at - seenAt) / 1000;
}
