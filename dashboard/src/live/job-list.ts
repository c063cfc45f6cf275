/** The list of jobs as it is now. */

import { signal } from "@preact/signals";
import { ask } from "../api/client";
import type { ServerEvent } from "../api/events";
import type { JobPage, JobView } from "../api/types";
import { askAgain, type Current } from "./ask-again";
import { Batched } from "./batched";
import { type Feed, Follower, type Looked } from "./follower";
import { type JobFilters, withChanges, withSameObjects } from "./job-changes";

const PAGE_JOBS = 50;
const MOST_JOBS_OF_A_PAGE = 200;

export class JobList implements Feed {
  /** Null until they are known. */
  readonly jobs = signal<readonly JobView[] | null>(null);
  readonly hasMore = signal(false);
  readonly isLoadingMore = signal(false);
  readonly moreError = signal<unknown>(null);
  readonly streamPath = "events";
  readonly follower = new Follower(this);

  private wanted = PAGE_JOBS;
  private cursor: string | null = null;
  private readonly changes = new Map<string, JobView>();
  private readonly shown = new Batched(() => this.show());
  private readonly pages = new Map<string, Current<JobPage>>();
  /** Jobs that were told while the list was asked for: its answer may be older than they. */
  private meanwhile: Map<string, JobView> | null = null;

  constructor(private readonly filters: JobFilters) {}

  start(): () => void {
    const stop = this.follower.start();
    return () => {
      stop();
      this.shown.drop();
    };
  }

  lastEventId(): string | null {
    return null;
  }

  look(abort: AbortSignal): Promise<Looked> {
    return this.poll(abort);
  }

  async poll(abort: AbortSignal): Promise<Looked> {
    const meanwhile = new Map<string, JobView>();
    this.meanwhile = meanwhile;
    const jobs: JobView[] = [];
    const asked = new Set<string>();
    let cursor: string | null = null;
    let retryAfterS: number | null = null;
    do {
      const limit = Math.min(this.wanted - jobs.length, MOST_JOBS_OF_A_PAGE);
      const path = this.path(limit, cursor);
      asked.add(path);
      const page: Current<JobPage> = await askAgain(path, this.pages.get(path), abort);
      this.pages.set(path, page);
      retryAfterS = page.retryAfterS;
      jobs.push(...page.value.jobs);
      cursor = page.value.next_cursor;
    } while (cursor !== null && jobs.length < this.wanted);
    for (const path of this.pages.keys()) {
      if (!asked.has(path)) {
        this.pages.delete(path);
      }
    }
    this.cursor = cursor;
    this.hasMore.value = cursor !== null;
    this.meanwhile = null;
    this.changes.clear();
    const current = withChanges(jobs, meanwhile, this.filters, cursor !== null);
    this.jobs.value = withSameObjects(this.jobs.value ?? [], current);
    return { isOver: false, retryAfterS };
  }

  take(event: ServerEvent): boolean {
    if (event.event === "job") {
      this.change(JSON.parse(event.data) as JobView);
    }
    return event.event !== "reconnect";
  }

  /** Show a job as an answer about it says. */
  change(job: JobView): void {
    this.changes.set(job.id, job);
    this.meanwhile?.set(job.id, job);
    this.shown.soon();
  }

  async loadMore(): Promise<void> {
    if (this.cursor === null || this.isLoadingMore.value) {
      return;
    }
    this.isLoadingMore.value = true;
    this.moreError.value = null;
    try {
      const { body } = await ask<JobPage>(this.path(PAGE_JOBS, this.cursor));
      const known = new Set(this.jobs.value?.map((job) => job.id));
      const added = body.jobs.filter((job) => !known.has(job.id));
      this.wanted += PAGE_JOBS;
      this.cursor = body.next_cursor;
      this.hasMore.value = body.next_cursor !== null;
      this.jobs.value = [...(this.jobs.value ?? []), ...added];
    } catch (error) {
      this.moreError.value = error;
    } finally {
      this.isLoadingMore.value = false;
    }
  }

  private show(): void {
    if (this.jobs.value !== null && this.changes.size > 0) {
      this.jobs.value = withChanges(
        this.jobs.value,
        this.changes,
        this.filters,
        this.hasMore.value,
      );
      this.changes.clear();
    }
  }

  private path(limit: number, cursor: string | null): string {
    const query = new URLSearchParams({ limit: String(limit) });
    const given = { ...this.filters, cursor: cursor ?? undefined };
    for (const [name, value] of Object.entries(given)) {
      if (value) {
        query.set(name, value);
      }
    }
    return `jobs?${query}`;
  }
}
