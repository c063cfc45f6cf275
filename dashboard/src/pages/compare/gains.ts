/** What each device gains from one schedule to another: less waiting, and for what. */

import type { IdleReason, Timeline } from "../../api/types";
import { IDLE_REASONS } from "../../views/pipeline/idle";

/** Where time goes: work (with the epilogue), or one of the reasons to be idle. */
export type Use = "busy" | IdleReason;

export const USES: readonly Use[] = ["busy", ...IDLE_REASONS];

export interface DeviceGain {
  device: number;
  a: Record<Use, number>;
  b: Record<Use, number>;
  /** Idle time in all. */
  idleNs: { a: number; b: number };
  peakBytes: { a: number; b: number };
}

/** The largest change of one device's idle time for one reason. */
export interface LargestChange {
  device: number;
  reason: IdleReason;
  /** Negative: less of it in the second schedule. */
  byNs: number;
}

export function deviceGains(a: Timeline, b: Timeline): DeviceGain[] {
  return a.devices.flatMap((left, index) => {
    const right = b.devices[index];
    if (!right) {
      return [];
    }
    const [of, to] = [usesOf(left), usesOf(right)];
    return {
      device: left.device,
      a: of,
      b: to,
      idleNs: { a: idleOf(of), b: idleOf(to) },
      peakBytes: { a: left.peak_bytes, b: right.peak_bytes },
    };
  });
}

/**
 * The change of the makespan by use, as a mean over the devices. Busy and idle time of each device
 * add up to the makespan, so these add up to its change.
 */
export function meanChanges(gains: readonly DeviceGain[]): { use: Use; byNs: number }[] {
  if (gains.length === 0) {
    return [];
  }
  return USES.map((use) => ({
    use,
    byNs: gains.reduce((sum, gain) => sum + gain.b[use] - gain.a[use], 0) / gains.length,
  }))
    .filter((change) => Math.abs(change.byNs) >= 1)
    .sort((x, y) => Math.abs(y.byNs) - Math.abs(x.byNs));
}

/**
 * Of the changes in the direction of the whole: where the makespan falls, the largest gain. (The
 * idle time of all devices changes alike where their work is the same; what it is for does not.)
 */
export function largestChange(
  gains: readonly DeviceGain[],
  makespanByNs: number,
): LargestChange | null {
  const direction = Math.sign(makespanByNs);
  const changes = gains.flatMap((gain) =>
    IDLE_REASONS.map((reason) => ({
      device: gain.device,
      reason,
      byNs: gain.b[reason] - gain.a[reason],
    })),
  );
  return changes
    .filter((change) => change.byNs * direction > 0)
    .reduce<LargestChange | null>(
      (most, change) => (Math.abs(change.byNs) > Math.abs(most?.byNs ?? 0) ? change : most),
      null,
    );
}

function usesOf(device: Timeline["devices"][number]): Record<Use, number> {
  return { busy: device.busy_ns, ...device.idle_ns };
}

function idleOf(uses: Record<Use, number>): number {
  return IDLE_REASONS.reduce((sum, reason) => sum + (uses[reason] ?? 0), 0);
}
