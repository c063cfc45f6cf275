/** Names and addresses of downloads. */

import type { ExportLink, JobView } from "../api/types";

const MOST_CHARACTERS = 60;

/** The path below `/v1` of an address that the service gave, whatever is before it. */
export function apiPath(href: string): string {
  const path = href.replace(/^https?:\/\/[^/]+/, "");
  return path.replace(/^.*?\/v1\//, "").replace(/^\/+/, "");
}

export function canBeHad(entry: ExportLink): entry is ExportLink & { href: string } {
  return entry.href !== null;
}

/** A job's name as the beginning of a file name, else its id. */
export function fileStem(job: Pick<JobView, "id" | "name">): string {
  const name = (job.name ?? "")
    .replace(/[^\p{L}\p{N}]+/gu, "-")
    .slice(0, MOST_CHARACTERS)
    .replace(/^-+|-+$/g, "");
  return name || `job-${job.id}`;
}

/** The service's file name, without what a file system could take for a path. */
export function exportName(entry: Pick<ExportLink, "file_name" | "format">, stem: string): string {
  const name = entry.file_name.replace(/^.*[\\/]/, "").trim();
  return name && !name.startsWith(".") ? name : `${stem}.${entry.format}`;
}
