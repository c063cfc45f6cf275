/** One run as it is now. The service has no stream of runs: it is asked again and again. */

import { signal } from "@preact/signals";
import { runPath } from "../../api/source";
import type { RunView } from "../../api/types";
import { askAgain, type Current } from "../../live/ask-again";
import { Follower, type Looked, type PolledFeed } from "../../live/follower";

export class OneRun implements PolledFeed {
  /** Null until it is known. */
  readonly run = signal<RunView | null>(null);
  readonly streamPath = null;
  readonly follower = new Follower(this);
  private current: Current<RunView> | null = null;

  constructor(private readonly id: string) {}

  start(): () => void {
    return this.follower.start();
  }

  async poll(abort: AbortSignal): Promise<Looked> {
    this.current = await askAgain(runPath(this.id), this.current, abort);
    const { value, retryAfterS } = this.current;
    this.run.value = value;
    return { isOver: value.state === "stopped", retryAfterS };
  }
}
