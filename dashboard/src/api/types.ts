/** The service's answers. Those that the OpenAPI document describes come from there. */

import type { components } from "./schema";

type Schemas = components["schemas"];

/** Services before 0.6 do not say what model it is. */
export type JobView = Schemas["JobView"] & { model?: string | null };
export type JobPage = Schemas["JobPage"];
export type ProgressStep = Schemas["ProgressStep"];
export type ProgressPage = Schemas["ProgressPage"];
export type LogPage = Schemas["LogPage"];
export type JobState = JobView["state"];
export type RunItem = Schemas["RunItem"];
export type RunPage = Schemas["RunPage"];
export type RunView = Schemas["RunView"];
export type RunVersion = Schemas["VersionView"];
export type RunStage = Schemas["RunStageView"];
export type Estimate = Schemas["QuantityView"];
export type RunEvent = Schemas["EventView"];
export type Proposals = Schemas["ProposalsView"];
export type Diagnosis = Schemas["DiagnosisView"];
export type DiagnosedCause = Schemas["CauseView"];
export type DiagnosedSymptom = Schemas["SymptomView"];
export type DiagnosedRemedy = Schemas["RemedyView"];
export type Evidence = Schemas["EvidenceView"];
export type Effect = Schemas["EffectView"];
export type Kind = "pipeline" | "sharding" | "training";

export type Op = "F" | "B" | "W" | "O" | "R";
export type WaitsFor = "device" | "dependency" | "memory" | "link" | "start" | "slack";
export type IdleReason = "fill" | "dependency" | "memory" | "link" | "slack" | "drain";
/** What a device does between its operations: it waits, or reduces gradients and steps. */
export type SpanReason = IdleReason | "epilogue";

export interface MemorySteps {
  at_ns: number[];
  bytes: number[];
}

/** What `GET /v1/jobs/{id}/timeline` answers: a schedule with all that a chart of it needs. */
export interface Timeline {
  schedule: string;
  placement: string | null;
  fits: boolean;
  reason: string | null;
  shortage?: Shortage | null;
  makespan_ns: number;
  steady_span_ns: number | null;
  lower_bound_ns: number | null;
  micro_batches: number;
  stages: { device: number }[];
  ops: {
    op: Op[];
    stage: number[];
    micro_batch: number[];
    start_ns: number[];
    end_ns: number[];
    after: (number | null)[];
    waits_for: WaitsFor[];
  };
  critical_path: number[];
  devices: DeviceTimeline[];
  hosts: HostTimeline[];
  links: LinkUse[];
}

export interface DeviceTimeline {
  device: number;
  host_link: string | null;
  host: number | null;
  limit_bytes: number | null;
  peak_bytes: number;
  memory: MemorySteps;
  /** With the epilogue: gradient reduction and optimizer step after the last operation. */
  busy_ns: number;
  epilogue_ns?: number;
  idle_ns: Record<IdleReason, number>;
  idle: { start_ns: number; end_ns: number; reason: IdleReason; next: number | null }[];
}

export interface HostTimeline {
  host: number;
  limit_bytes: number | null;
  peak_bytes: number;
  memory: MemorySteps;
}

export interface LinkUse {
  link: string;
  devices: number[];
  offload_busy_ns: number;
  reload_busy_ns: number;
}

/** A row of a pipeline result's comparison: a classic schedule under the same costs. */
export interface ComparisonRow {
  name: string;
  placement: string | null;
  hypothetical: boolean;
  makespan_ns: number | null;
  steady_span_ns: number | null;
  bubble_ratio: number | null;
  peak_memory_bytes: number[] | null;
  offloads: number | null;
  fits: boolean;
  reason: string | null;
  /** Absent in answers of older versions. */
  shortage?: Shortage | null;
}

/** What a schedule lacks most: a device's memory, or that of a host. */
export interface Shortage {
  device: number | null;
  host: number | null;
  needed_bytes: number;
  limit_bytes: number;
}

export interface Assumption {
  what: string;
  value: string | number | null;
  basis: string;
}

/** A result's document, of whichever kind; docs/api.md says what is in it. */
// biome-ignore lint/suspicious/noExplicitAny: results are documents whose parts the views describe.
export type ResultDocument = Record<string, any>;

export interface ExportLink {
  format: string;
  written_for?: string | null;
  /** Why this plan cannot be written in it; then there is no `href`. */
  hindrance?: string | null;
  title: string;
  media_type: string;
  file_name: string;
  href: string | null;
}
