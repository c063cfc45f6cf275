import type { JobView } from "../../api/types";

const SHORT_ID = 8;

/** What people call a job: its name, or the beginning of its id. */
export function shownName(job: JobView): string {
  return job.name || job.id.slice(0, SHORT_ID);
}
