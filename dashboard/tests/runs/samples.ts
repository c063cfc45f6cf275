import type { Estimate, RunItem, RunVersion, RunView } from "../../src/api/types";

export function itemOf(fields: Partial<RunItem> = {}): RunItem {
  const id = fields.id ?? "run-1";
  return {
    id,
    name: null,
    state: "active",
    model: "GPT-14.2B",
    created_at: "2026-01-01T00:00:00Z",
    stopped_at: null,
    telemetry_at: null,
    newest_iteration: null,
    newest_version: null,
    newest_state: null,
    apply_at_iteration: null,
    running_version: null,
    predicted_gain: null,
    measured_gain: null,
    links: { self: "", telemetry: "", plan: "", diagnosis: "", proposals: "", job: null },
    ...fields,
  };
}

export function versionOf(fields: Partial<RunVersion> = {}): RunVersion {
  return {
    version: 1,
    state: "confirmed",
    reason: "first",
    created_at: "2026-01-01T00:00:00Z",
    published_at_iteration: 4,
    apply_at_iteration: 15,
    needs_restart: false,
    copy_of: null,
    predicted_gain: null,
    gain_low: null,
    measured_gain: null,
    makespan_ns: 270_000_000,
    job_id: "job-1",
    acknowledged: 4,
    missing_ranks: [],
    of: 4,
    ...fields,
  };
}

export function estimateOf(fields: Partial<Estimate> = {}): Estimate {
  return {
    value: 10_000_000,
    error: 1000,
    noise: 0.0001,
    confidence: 1,
    samples: 40,
    outliers: 0,
    since: 20,
    planned: 10_000_000,
    drift: null,
    ...fields,
  };
}

export function viewOf(fields: Partial<RunView> = {}): RunView {
  return {
    ...itemOf(),
    stages_count: 2,
    ranks: 4,
    versions: [],
    stages: [],
    re_solve: null,
    events: [],
    adapted: { backward_delay_tolerance_ns: null, stages: [] },
    settings: {
      resolve_every: 50,
      warm_up: 20,
      window: 100,
      min_gain: 0.02,
      memory_headroom: 0.02,
      swap_lead: 10,
      solve_time_limit_s: 30,
      link_busy_limit: 0.85,
      ranks: null,
      measure_over: 20,
      cool_down: null,
    },
    ...fields,
  };
}
