/** Calls a function at most so often, however often it is asked for. */

const SHORTEST_MS = 250;

export class Batched {
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly call: () => void,
    private readonly everyMs = SHORTEST_MS,
  ) {}

  /** Call it within a quarter of a second, once for all that is asked until then. */
  soon(): void {
    this.timer ??= setTimeout(() => this.now(), this.everyMs);
  }

  now(): void {
    this.drop();
    this.call();
  }

  /** What was asked for is not done any more. */
  drop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}
