/** Whether anybody can be looking: a tab that was long out of sight follows nothing. */

const HIDDEN_FOR_LONG_MS = 60_000;

/** Aborted once the tab has been out of sight for long. Call `release` when it matters no more. */
export function absence(longMs = HIDDEN_FOR_LONG_MS): { signal: AbortSignal; release: () => void } {
  const controller = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  function look(): void {
    clearTimeout(timer);
    if (document.hidden) {
      timer = setTimeout(() => controller.abort(), longMs);
    }
  }
  document.addEventListener("visibilitychange", look);
  look();
  function release(): void {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", look);
  }
  return { signal: controller.signal, release };
}

/** Settled as soon as the tab is in sight, or the signal aborted. */
export function untilInSight(signal: AbortSignal): Promise<void> {
  return new Promise((settle) => {
    function look(): void {
      if (!document.hidden || signal.aborted) {
        document.removeEventListener("visibilitychange", look);
        signal.removeEventListener("abort", look);
        settle();
      }
    }
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}

/** Settled after a while, when the network is there again, or when the signal is aborted. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((settle) => {
    const timer = setTimeout(end, ms);
    function end(): void {
      clearTimeout(timer);
      removeEventListener("online", end);
      signal.removeEventListener("abort", end);
      settle();
    }
    addEventListener("online", end);
    signal.addEventListener("abort", end);
    if (signal.aborted) {
      end();
    }
  });
}
