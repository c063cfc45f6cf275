/** The part of the time axis that is in view. */

export interface TimeWindow {
  startNs: number;
  endNs: number;
}

/** Closer than this there is nothing more to see: times are whole nanoseconds. */
export const CLOSEST_NS = 20;

export function whole(endNs: number): TimeWindow {
  return { startNs: 0, endNs };
}

/** Zoom by a factor (over 1 shows more time) so that one point in time stays where it is. */
export function zoomAt(
  view: TimeWindow,
  timeNs: number,
  factor: number,
  endNs: number,
): TimeWindow {
  const span = view.endNs - view.startNs;
  const wanted = Math.min(endNs, Math.max(Math.min(CLOSEST_NS, endNs), span * factor));
  const share = span > 0 ? (timeNs - view.startNs) / span : 0;
  return within({ startNs: timeNs - share * wanted, endNs: timeNs + (1 - share) * wanted }, endNs);
}

export function panBy(view: TimeWindow, byNs: number, endNs: number): TimeWindow {
  return within({ startNs: view.startNs + byNs, endNs: view.endNs + byNs }, endNs);
}

/** Pan just so far that an operation is in view, and zoom out if it is longer than the view. */
export function reveal(
  view: TimeWindow,
  startNs: number,
  stopNs: number,
  endNs: number,
): TimeWindow {
  const span = Math.max(view.endNs - view.startNs, stopNs - startNs);
  const margin = Math.min(span * 0.1, (span - (stopNs - startNs)) / 2);
  if (startNs - margin < view.startNs) {
    return within({ startNs: startNs - margin, endNs: startNs - margin + span }, endNs);
  }
  if (stopNs + margin > view.endNs) {
    return within({ startNs: stopNs + margin - span, endNs: stopNs + margin }, endNs);
  }
  return view;
}

export function isSame(a: TimeWindow, b: TimeWindow): boolean {
  return a.startNs === b.startNs && a.endNs === b.endNs;
}

function within(view: TimeWindow, endNs: number): TimeWindow {
  const span = Math.min(view.endNs - view.startNs, endNs);
  const startNs = Math.min(Math.max(0, view.startNs), endNs - span);
  return { startNs, endNs: startNs + span };
}
