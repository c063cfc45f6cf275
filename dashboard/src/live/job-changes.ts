/** Lists of jobs, newest first, as news of single jobs arrive. */

import type { JobView } from "../api/types";

export interface JobFilters {
  state?: string | undefined;
  kind?: string | undefined;
  name?: string | undefined;
  model?: string | undefined;
  tag?: string | undefined;
}

/** As the service filters: names and models by a part in whatever case, tags whole. */
export function matches(job: JobView, filters: JobFilters): boolean {
  return (
    (!filters.state || job.state === filters.state) &&
    (!filters.kind || job.kind === filters.kind) &&
    hasPart(job.name, filters.name) &&
    hasPart(job.model, filters.model) &&
    (!filters.tag || job.tags.includes(filters.tag))
  );
}

function hasPart(text: string | null | undefined, part: string | undefined): boolean {
  return !part || (text ?? "").toLowerCase().includes(part.toLowerCase());
}

/**
 * The list with changed and new jobs in it, and without those that match no longer. A new one that
 * is older than all of a list that goes on is left to its page.
 */
export function withChanges(
  jobs: readonly JobView[],
  changes: ReadonlyMap<string, JobView>,
  filters: JobFilters,
  hasMore: boolean,
): JobView[] {
  const kept = jobs
    .map((job) => changes.get(job.id) ?? job)
    .filter((job) => !changes.has(job.id) || matches(job, filters));
  const known = new Set(jobs.map((job) => job.id));
  const last = jobs.at(-1);
  const added = [...changes.values()].filter(
    (job) =>
      !known.has(job.id) &&
      matches(job, filters) &&
      (!hasMore || last === undefined || newestFirst(job, last) < 0),
  );
  return added.length === 0 ? kept : [...kept, ...added].sort(newestFirst);
}

/** The new list, with the very objects of the old one, or it itself, where nothing has changed. */
export function withSameObjects(
  before: readonly JobView[],
  after: readonly JobView[],
): readonly JobView[] {
  const known = new Map(before.map((job) => [job.id, job]));
  const list = after.map((job) => {
    const old = known.get(job.id);
    return old && JSON.stringify(old) === JSON.stringify(job) ? old : job;
  });
  const isSame = list.length === before.length && list.every((job, i) => job === before[i]);
  return isSame ? before : list;
}

export function newestFirst(a: JobView, b: JobView): number {
  const later = Date.parse(b.created_at) - Date.parse(a.created_at);
  return later !== 0 ? later : a.id < b.id ? 1 : a.id > b.id ? -1 : 0;
}
