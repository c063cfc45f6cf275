/** The list of runs as it is now. The service has no stream of runs: it is asked again and again. */

import { signal } from "@preact/signals";
import type { RunItem, RunPage } from "../../api/types";
import { askAgain, type Current } from "../../live/ask-again";
import { Follower, type Looked, type PolledFeed } from "../../live/follower";

const PAGE_RUNS = 50;

export class RunList implements PolledFeed {
  /** Null until they are known. */
  readonly runs = signal<readonly RunItem[] | null>(null);
  readonly hasMore = signal(false);
  readonly streamPath = null;
  readonly follower = new Follower(this);

  private wantedPages = 1;
  private readonly pages = new Map<string, Current<RunPage>>();

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
      const page: Current<RunPage> = await askAgain(path, this.pages.get(path), abort);
      this.pages.set(path, page);
      retryAfterS = page.retryAfterS;
      runs.push(...page.value.runs);
      cursor = page.value.next_cursor;
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
}
