/** One run as it is now. The service has no stream of runs: it is asked again and again. */

import { signal } from "@preact/signals";
import { ask } from "../../api/client";
import type { RunView } from "../../api/types";
import { noteServiceTime } from "../../live/clock";
import { Follower, type Looked, type PolledFeed } from "../../live/follower";

export function runPath(id: string): string {
  return `runs/${encodeURIComponent(id)}`;
}

export class OneRun implements PolledFeed {
  /** Null until it is known. */
  readonly run = signal<RunView | null>(null);
  readonly streamPath = null;
  readonly follower = new Follower(this);
  private tag: string | null = null;

  constructor(private readonly id: string) {}

  start(): () => void {
    return this.follower.start();
  }

  async poll(abort: AbortSignal): Promise<Looked> {
    const { status, body, headers } = await ask<RunView>(runPath(this.id), {
      signal: abort,
      headers: this.tag === null ? {} : { "If-None-Match": this.tag },
    });
    noteServiceTime(headers);
    if (status !== 304) {
      this.run.value = body;
      this.tag = headers.get("ETag");
    }
    const isOver = this.run.value?.state === "stopped";
    return { isOver, retryAfterS: Number(headers.get("Retry-After")) || null };
  }
}
