/** Where a view gets what it shows: the service, or a report that carries all of it. */

import type { JsonObject } from "../pages/new/json-text";
import { ask } from "./client";
import type {
  ExportLink,
  JobView,
  LogPage,
  ProgressPage,
  ProgressStep,
  ResultDocument,
  Timeline,
} from "./types";

export interface ScheduleChoice {
  schedule: string;
  placement: string | null;
}

/** A job that is over, with its plan. */
export interface PlanSource {
  job: JobView;
  result: ResultDocument;
  steps: readonly ProgressStep[];
  /** The timeline of the plan's schedule, or of a classic one. */
  timeline(choice?: ScheduleChoice, signal?: AbortSignal): Promise<Timeline>;
  /** What can be downloaded from the service; nothing in a report. */
  exports(signal?: AbortSignal): Promise<readonly ExportLink[]>;
  /** Whether the classic schedules' timelines are to be had too. */
  hasClassicTimelines: boolean;
  /** Set where there is no service to ask for more. */
  isReport?: true;
}

export function jobPath(id: string): string {
  return `jobs/${encodeURIComponent(id)}`;
}

export function runPath(id: string): string {
  return `runs/${encodeURIComponent(id)}`;
}

export async function fetchResult(id: string, signal?: AbortSignal): Promise<ResultDocument> {
  return (await ask<ResultDocument>(`${jobPath(id)}/result`, { signal })).body;
}

export async function fetchJob(id: string, signal?: AbortSignal): Promise<JobView> {
  return (await ask<JobView>(jobPath(id), { signal })).body;
}

/** What was posted for the job. */
export async function fetchRequest<Body = JsonObject>(
  id: string,
  signal?: AbortSignal,
): Promise<Body> {
  return (await ask<Body>(`${jobPath(id)}/request`, { signal })).body;
}

export async function fetchSteps(id: string, signal?: AbortSignal): Promise<ProgressStep[]> {
  const steps: ProgressStep[] = [];
  let offset = 0;
  for (;;) {
    const { body } = await ask<ProgressPage>(`${jobPath(id)}/progress?offset=${offset}`, {
      signal,
    });
    steps.push(...body.steps);
    if (body.steps.length === 0 || body.next_offset <= offset) {
      return steps;
    }
    offset = body.next_offset;
  }
}

export async function fetchLog(id: string, offset: number, signal?: AbortSignal): Promise<LogPage> {
  return (await ask<LogPage>(`${jobPath(id)}/log?offset=${offset}`, { signal })).body;
}

export async function fetchTimeline(
  id: string,
  choice?: ScheduleChoice,
  signal?: AbortSignal,
): Promise<Timeline> {
  const query = new URLSearchParams();
  if (choice) {
    query.set("schedule", choice.schedule);
    if (choice.placement !== null) {
      query.set("placement", choice.placement);
    }
  }
  const search = query.size > 0 ? `?${query}` : "";
  return (await ask<Timeline>(`${jobPath(id)}/timeline${search}`, { signal })).body;
}

/** The timeline of a version of a run's plan, which does not need the job that made it. */
export async function fetchRunTimeline(
  run: string,
  version: number,
  signal?: AbortSignal,
): Promise<Timeline> {
  return (await ask<Timeline>(`${runPath(run)}/plan/${version}/timeline`, { signal })).body;
}

export async function planSource(id: string, signal?: AbortSignal): Promise<PlanSource> {
  const [job, result, steps] = await Promise.all([
    fetchJob(id, signal),
    fetchResult(id, signal),
    fetchSteps(id, signal),
  ]);
  return {
    job,
    result,
    steps,
    timeline: (choice, abort) => fetchTimeline(id, choice, abort),
    exports: async (abort) =>
      (await ask<{ exports: ExportLink[] }>(`${jobPath(id)}/exports`, { signal: abort })).body
        .exports,
    hasClassicTimelines: true,
  };
}
