/** One job as it is now: its view, the steps of its solve, and the end of its log. */

import { batch, signal } from "@preact/signals";
import { ask } from "../api/client";
import type { ServerEvent } from "../api/events";
import { fetchLog, jobPath } from "../api/source";
import type { JobView, ProgressPage, ProgressStep } from "../api/types";
import { askAgain } from "./ask-again";
import { Batched } from "./batched";
import { type Feed, Follower, type Looked } from "./follower";
import { type LogTail, NO_LINES, withLines } from "./log-tail";
import { isOver } from "./objective";

export interface SeenJob {
  job: JobView;
  /** When it was told, by this browser's clock. */
  at: number;
}

export class OneJob implements Feed {
  /** Null until it is known. */
  readonly seen = signal<SeenJob | null>(null);
  readonly steps = signal<readonly ProgressStep[]>([]);
  readonly log = signal<LogTail>(NO_LINES);
  readonly streamPath: string;
  readonly follower = new Follower(this);

  private readonly path: string;
  private changes = 0;
  private tag: string | null = null;
  private eventId: string | null = null;
  private next: { seen: SeenJob | null; steps: readonly ProgressStep[]; log: LogTail };
  private readonly shown = new Batched(() => this.show());

  constructor(private readonly id: string) {
    this.path = jobPath(id);
    this.streamPath = `${this.path}/events?log=true`;
    this.next = { seen: null, steps: [], log: NO_LINES };
  }

  start(): () => void {
    const stop = this.follower.start();
    return () => {
      stop();
      this.shown.drop();
    };
  }

  lastEventId(): string | null {
    return this.eventId;
  }

  /** The stream tells steps and lines, as long as there is one. */
  async look(abort: AbortSignal): Promise<Looked> {
    const looked = await this.view(abort);
    if (looked.isOver) {
      await this.rest(abort);
    }
    looked.apply();
    return looked;
  }

  async poll(abort: AbortSignal): Promise<Looked> {
    const looked = await this.view(abort);
    // First the rest: a job that is shown to be over has all that it did.
    await this.rest(abort);
    looked.apply();
    return looked;
  }

  take(event: ServerEvent): boolean {
    this.eventId = event.id ?? this.eventId;
    switch (event.event) {
      case "state":
        this.change(JSON.parse(event.data) as JobView);
        break;
      case "progress":
        this.addSteps([JSON.parse(event.data) as ProgressStep]);
        break;
      case "log": {
        const { offset, lines } = JSON.parse(event.data) as { offset: number; lines: string[] };
        this.addLines(offset, lines);
        break;
      }
    }
    this.shown.soon();
    return event.event !== "reconnect" && event.event !== "end";
  }

  /** Show the job as an answer about it says. */
  change(job: JobView): void {
    this.changes += 1;
    this.tag = null;
    this.next.seen = { job, at: Date.now() };
    this.shown.soon();
  }

  private async view(abort: AbortSignal): Promise<Looked & { apply: () => void }> {
    const changesBefore = this.changes;
    const known = this.next.seen?.job;
    const { value, tag, retryAfterS } = await askAgain<JobView>(
      this.path,
      known && { value: known, tag: this.tag },
      abort,
    );
    const apply = () => {
      // What the stream has told meanwhile is newer than this answer.
      if (value !== known && this.changes === changesBefore) {
        this.change(value);
        this.tag = tag;
      }
      this.shown.now();
    };
    return { isOver: isOver(value), retryAfterS, apply };
  }

  /** Steps and lines that are not known yet. */
  private async rest(abort: AbortSignal): Promise<void> {
    for (let isMore = true; isMore; ) {
      const offset = (this.next.steps.at(-1)?.seq ?? -1) + 1;
      const { body } = await ask<ProgressPage>(`${this.path}/progress?offset=${offset}`, {
        signal: abort,
      });
      this.addSteps(body.steps);
      isMore = body.next_offset > offset && body.steps.length > 0;
    }
    for (let isMore = true; isMore; ) {
      const offset = this.next.log.next;
      const page = await fetchLog(this.id, offset, abort);
      this.addLines(offset, page.lines);
      isMore = this.next.log.next > offset;
    }
  }

  private addSteps(steps: readonly ProgressStep[]): void {
    const last = this.next.steps.at(-1)?.seq ?? -1;
    const fresh = steps.filter((step) => step.seq > last);
    if (fresh.length > 0) {
      this.next.steps = [...this.next.steps, ...fresh];
    }
  }

  private addLines(offset: number, lines: readonly string[]): void {
    this.next.log = withLines(this.next.log, offset, lines);
  }

  private show(): void {
    batch(() => {
      this.seen.value = this.next.seen;
      this.steps.value = this.next.steps;
      this.log.value = this.next.log;
    });
  }
}
