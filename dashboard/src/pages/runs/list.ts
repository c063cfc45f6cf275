/** The list of runs as it is now. The service has no stream of runs: it is asked again and again. */

import { signal } from "@preact/signals";
import { ask } from "../../api/client";
import type { RunItem, RunPage } from "../../api/types";
import { noteServiceTime } from "../../live/clock";
import { Follower, type Looked, type PolledFeed } from "../../live/follower";

const PAGE_RUNS = 50;

export class RunList implements PolledFeed {
  /** Null until they are known. */
  readonly runs = signal<readonly RunItem[] | null>(null);
  readonly hasMore = signal(false);
  readonly streamPath = null;
  readonly follower = new Follower(this);

  private wantedPages = 1;
  private readonly pages = new Map<string, { tag: string | null; page: RunPage }>();

  constructor(private readonly state: string | undefined) {}

  start(): () => void {
    return this.follower.start();
  }

  async poll(abort: AbortSignal): Promise<Looked> {
    const runs: RunItem[] = [];
    const asked = new Set<string>();
    let cursor: string | null = null;
    let retryAfterS: number | null = null;
    do {
      const path = this.path(cursor);
      asked.add(path);
      const answer = await this.page(path, abort);
      retryAfterS = answer.retryAfterS;
      runs.push(...answer.page.runs);
      cursor = answer.page.next_cursor;
    } while (cursor !== null && asked.size < this.wantedPages);
    for (const path of this.pages.keys()) {
      if (!asked.has(path)) {
        this.pages.delete(path);
      }
    }
    this.hasMore.value = cursor !== null;
    this.runs.value = runs;
    return { isOver: false, retryAfterS };
  }

  /** Show one page more, from the next time on that the service is asked: at once. */
  loadMore(): void {
    this.wantedPages += 1;
    this.follower.retry();
  }

  private path(cursor: string | null): string {
    const query = new URLSearchParams({ limit: String(PAGE_RUNS) });
    for (const [name, value] of Object.entries({ state: this.state, cursor })) {
      if (value) {
        query.set(name, value);
      }
    }
    return `runs?${query}`;
  }

  private async page(path: string, abort: AbortSignal) {
    const known = this.pages.get(path);
    const { status, body, headers } = await ask<RunPage>(path, {
      signal: abort,
      headers: known?.tag ? { "If-None-Match": known.tag } : {},
    });
    noteServiceTime(headers);
    const page = status === 304 && known ? known.page : body;
    this.pages.set(path, { tag: headers.get("ETag"), page });
    return { page, retryAfterS: Number(headers.get("Retry-After")) || null };
  }
}
