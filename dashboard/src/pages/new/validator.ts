/** Asks the service about what is typed: a while after the last change, one question at a time. */

export interface Question {
  address: string;
  body: string;
}

export type Check<Preview> =
  | { state: "checking" }
  | { state: "accepted"; preview: Preview }
  | { state: "failed"; error: unknown };

export interface Asking<Preview> {
  ask: (question: Question, signal: AbortSignal) => Promise<Preview>;
  tell: (check: Check<Preview>) => void;
  /** When to ask again after a failure, in milliseconds; null: not before something changes. */
  retryAfterMs: (error: unknown) => number | null;
}

export const QUIET_MS = 500;

export class Validator<Preview> {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private inFlight: AbortController | null = null;
  private next: Question | null = null;
  private isOver = false;

  constructor(private readonly asking: Asking<Preview>) {}

  /** The question as it is now; null while there is nothing that could be asked. */
  change(question: Question | null): void {
    this.next = question;
    this.inFlight?.abort();
    clearTimeout(this.timer);
    if (question) {
      this.asking.tell({ state: "checking" });
      this.timer = setTimeout(() => this.send(), QUIET_MS);
    }
  }

  end(): void {
    this.isOver = true;
    this.change(null);
  }

  private async send(): Promise<void> {
    const question = this.next;
    // What is being aborted comes here again when it has ended.
    if (!question || this.inFlight) {
      return;
    }
    const controller = new AbortController();
    this.inFlight = controller;
    this.next = null;
    let check: Check<Preview>;
    try {
      check = { state: "accepted", preview: await this.asking.ask(question, controller.signal) };
    } catch (error) {
      check = { state: "failed", error };
    }
    this.inFlight = null;
    if (this.isOver) {
      return;
    }
    if (controller.signal.aborted) {
      this.sendWhenQuiet();
      return;
    }
    this.asking.tell(check);
    const againMs = check.state === "failed" ? this.asking.retryAfterMs(check.error) : null;
    if (againMs !== null) {
      this.next = question;
      this.timer = setTimeout(() => this.send(), againMs);
    }
  }

  /** The aborted question's end may come after the time to ask the next one. */
  private sendWhenQuiet(): void {
    if (this.next) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.send(), QUIET_MS);
    }
  }
}
