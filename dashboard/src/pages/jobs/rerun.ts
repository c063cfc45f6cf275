/** The request of a job, sent again with another time limit. */

import { ask } from "../../api/client";
import type { JobView } from "../../api/types";

interface Solver {
  search_iterations?: number | null;
  time_limit_s?: number;
}

/** A body of a request; what of it matters here. */
export interface JobRequest {
  solver?: Solver | null;
  [field: string]: unknown;
}

const POSTED_TO: Record<string, string> = {
  pipeline: "pipeline-schedules",
  sharding: "sharding-plans",
  training: "training-plans",
};

/** Whether the request asks for a reproducible answer, which has no time limit. */
export function hasIterations(request: JobRequest): boolean {
  return request.solver?.search_iterations != null;
}

/** The request with this time limit, and without the budget of iterations that rules one out. */
export function withTimeLimit(request: JobRequest, seconds: number): JobRequest {
  const { search_iterations: _, ...solver } = request.solver ?? {};
  return { ...request, solver: { ...solver, time_limit_s: seconds } };
}

/** A number of seconds as it was typed; null if it is none above 0. */
export function readSeconds(text: string): number | null {
  const seconds = Number(text.trim().replace(",", "."));
  return text.trim() !== "" && Number.isFinite(seconds) && seconds > 0 ? seconds : null;
}

/** Solve it afresh. Returns the new job's id. */
export async function postAgain(job: JobView, request: JobRequest): Promise<string> {
  const { body } = await ask<{ id: string }>(POSTED_TO[job.kind] ?? "", {
    method: "POST",
    body: request,
    headers: { "Cache-Control": "no-cache" },
  });
  return body.id;
}
