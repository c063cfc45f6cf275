/** Time as the service has it, and a tick for what says how long ago something was. */

import { signal } from "@preact/signals";

const NEGLIGIBLE_MS = 5000;
const TICK_MS = 1000;

let aheadMs = 0;
let timer: ReturnType<typeof setInterval> | undefined;

/** This browser's clock, read once a second while something that is shown depends on it. */
export const now = signal(Date.now(), {
  watched() {
    timer = setInterval(() => {
      now.value = Date.now();
    }, TICK_MS);
  },
  unwatched() {
    clearInterval(timer);
  },
});

/** Learn from an answer how far the clocks of the two machines are apart. */
export function noteServiceTime(headers: Headers): void {
  const at = Date.parse(headers.get("Date") ?? "");
  if (!Number.isNaN(at)) {
    const difference = at - Date.now();
    aheadMs = Math.abs(difference) < NEGLIGIBLE_MS ? 0 : difference;
  }
}

/** What the service's clock shows when this browser's shows `at`. */
export function serviceTime(at: number): Date {
  return new Date(at + aheadMs);
}
