import type { JobView, ProgressStep } from "../../src/api/types";

export function jobOf(fields: Partial<JobView> = {}): JobView {
  const id = fields.id ?? "job-1";
  return {
    id,
    kind: "pipeline",
    name: null,
    model: "GPT-14.2B",
    tags: [],
    priority: 5,
    state: "running",
    cancel_requested: false,
    cache: "miss",
    engine: "auto",
    queue: "short",
    queue_position: null,
    phase: null,
    time_limit_s: 60,
    spent_s: 1,
    best_makespan_ns: null,
    best_step_time_ns: null,
    lower_bound_ns: null,
    best_objective_bytes: null,
    lower_bound_bytes: null,
    gap: null,
    progress_at: null,
    heartbeat_age_s: null,
    attempts: 1,
    crashes: 0,
    losses: 0,
    created_at: "2026-01-01T00:00:00Z",
    started_at: null,
    finished_at: null,
    links: { self: "", result: "", log: "", progress: "", events: "" },
    ...fields,
  };
}

export function stepOf(fields: Partial<ProgressStep> = {}): ProgressStep {
  return {
    seq: 0,
    at: "2026-01-01T00:00:00Z",
    state: "running",
    attempt: 1,
    phase: null,
    spent_s: 0,
    best_makespan_ns: null,
    best_step_time_ns: null,
    lower_bound_ns: null,
    best_objective_bytes: null,
    lower_bound_bytes: null,
    gap: null,
    detail: null,
    ...fields,
  };
}
