/** Follows the service: by a stream of events, or by asking again and again where there is none. */

import { computed, signal } from "@preact/signals";
import { ApiError, Unreachable } from "../api/client";
import { type ServerEvent, streamEvents } from "../api/events";
import { now } from "./clock";
import { absence, pause, untilInSight } from "./presence";

/** How news arrive: `refused` wants another key, `failed` an answer that asking again won't change. */
export type Mode = "connecting" | "live" | "polling" | "paused" | "over" | "refused" | "failed";

export interface Looked {
  isOver: boolean;
  /** When the service wants to be asked again. */
  retryAfterS: number | null;
}

/** What is followed without a stream: it is asked for again and again. */
export interface PolledFeed {
  readonly streamPath: null;
  poll(signal: AbortSignal): Promise<Looked>;
}

/** What is followed: how it is asked for, and what its events mean. */
export interface Feed {
  readonly streamPath: string;
  lastEventId(): string | null;
  /** Ask for what the stream would not tell. */
  look(signal: AbortSignal): Promise<Looked>;
  /** Ask for everything. */
  poll(signal: AbortSignal): Promise<Looked>;
  /** Whether more events follow on this stream. */
  take(event: ServerEvent): boolean;
}

export const TIMING = {
  /** Without a sign of life for so long what is shown may be out of date. */
  staleMs: 20_000,
  /** The service sends a comment every 15 s: a stream that is silent for two of them is dead. */
  silentMs: 32_000,
  answerMs: 30_000,
  pollMs: 2000,
  /** Places in the queue change without an event. */
  lookAgainMs: 14_000,
  reconnectMs: 500,
  firstBackoffMs: 1000,
  longestBackoffMs: 30_000,
  /** An older service, without this stream, may be replaced one day. */
  noStreamMs: 300_000,
};

export class Follower {
  readonly mode = signal<Mode>("connecting");
  readonly error = signal<unknown>(null);
  private readonly heardAt = signal(Date.now());
  /** For how many seconds nothing was heard, once that is long. */
  readonly staleS = computed(() => {
    const silentMs = now.value - this.heardAt.value;
    const isAsking = this.mode.value !== "paused" && !this.isEnded();
    return isAsking && silentMs > TIMING.staleMs ? Math.round(silentMs / 1000) : null;
  });
  private controller = new AbortController();
  private streamFrom = 0;
  private streamFailures = 0;
  private failures = 0;

  constructor(private readonly feed: Feed | PolledFeed) {}

  /** Follow until the function that is returned is called. */
  start(): () => void {
    this.controller = new AbortController();
    const { signal } = this.controller;
    void this.run(signal);
    return () => this.controller.abort();
  }

  /** Begin again after what `failed`, or at once instead of after a pause. */
  retry(): void {
    this.controller.abort();
    this.start();
  }

  private async run(signal: AbortSignal): Promise<void> {
    let isAway: boolean;
    do {
      this.mode.value = "connecting";
      this.heardAt.value = Date.now();
      const away = absence();
      await this.follow(AbortSignal.any([signal, away.signal]));
      away.release();
      isAway = away.signal.aborted && !signal.aborted && !this.isEnded();
      if (isAway) {
        this.mode.value = "paused";
        await untilInSight(signal);
      }
    } while (isAway && !signal.aborted);
  }

  private async follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const { feed } = this;
        const streamed = feed.streamPath !== null && Date.now() >= this.streamFrom ? feed : null;
        const looked = await this.ask((abort) => streamed?.look(abort) ?? feed.poll(abort), signal);
        if (looked.isOver) {
          this.mode.value = "over";
          return;
        }
        if (streamed) {
          await this.readStream(streamed, signal);
        } else {
          this.mode.value = "polling";
          await pause(Math.max(TIMING.pollMs, (looked.retryAfterS ?? 0) * 1000), signal);
        }
      } catch (error) {
        if (signal.aborted) {
          return;
        }
        this.error.value = error;
        const last = lastMode(error);
        if (last !== null) {
          this.mode.value = last;
          return;
        }
        this.failures += 1;
        this.mode.value = "connecting";
        await pause(backoffMs(this.failures, error), signal);
      }
    }
  }

  private async ask(
    feed: (signal: AbortSignal) => Promise<Looked>,
    signal: AbortSignal,
  ): Promise<Looked> {
    const tooLong = AbortSignal.timeout(TIMING.answerMs);
    try {
      const looked = await feed(AbortSignal.any([signal, tooLong]));
      this.heard();
      return looked;
    } catch (error) {
      throw tooLong.aborted && !signal.aborted ? new Unreachable(String(error)) : error;
    }
  }

  private heard(): void {
    this.failures = 0;
    this.error.value = null;
    this.heardAt.value = Date.now();
  }

  /** Read the stream to its end. When it may be tried again is in `streamFrom` afterwards. */
  private async readStream(feed: Feed, signal: AbortSignal): Promise<void> {
    const silence = new AbortController();
    const listening = AbortSignal.any([signal, silence.signal]);
    let watchdog = setTimeout(() => silence.abort(), TIMING.silentMs);
    let lookedAt = 0;
    try {
      for await (const event of streamEvents(feed.streamPath, listening, feed.lastEventId())) {
        clearTimeout(watchdog);
        watchdog = setTimeout(() => silence.abort(), TIMING.silentMs);
        this.heard();
        this.mode.value = "live";
        if (Date.now() - lookedAt > TIMING.lookAgainMs) {
          // Also at first: what changed just before the stream began is told by nobody.
          lookedAt = Date.now();
          void this.ask((abort) => feed.look(abort), listening).catch(() => silence.abort());
        }
        if (!feed.take(event)) {
          this.streamFailures = 0;
          await pause(TIMING.reconnectMs * (1 + Math.random()), signal);
          return;
        }
      }
      this.streamBroke(null);
    } catch (error) {
      if (lastMode(error) === "refused") {
        throw error;
      }
      this.streamBroke(error);
    } finally {
      clearTimeout(watchdog);
      silence.abort();
    }
  }

  private streamBroke(error: unknown): void {
    this.streamFailures += 1;
    const isUnknown = error instanceof ApiError && error.status === 404;
    const waitMs = isUnknown ? TIMING.noStreamMs : backoffMs(this.streamFailures, error);
    this.streamFrom = Date.now() + waitMs;
  }

  private isEnded(): boolean {
    return ["over", "refused", "failed"].includes(this.mode.value);
  }
}

/** Where asking again would be answered alike: how it ends. */
function lastMode(error: unknown): Mode | null {
  if (!(error instanceof ApiError)) {
    return null;
  }
  if (error.status === 401) {
    return "refused";
  }
  const isForNow = error.status === 429 || error.status >= 500;
  return isForNow ? null : "failed";
}

function backoffMs(failures: number, error: unknown): number {
  const doubled = TIMING.firstBackoffMs * 2 ** Math.min(failures - 1, 10);
  const wanted = error instanceof ApiError ? (error.retryAfterS ?? 0) * 1000 : 0;
  return Math.max(wanted, Math.min(TIMING.longestBackoffMs, doubled) * (0.75 + Math.random() / 2));
}
