/** Where the devices' time goes, and in words who waits longest for what. */

import type { DeviceTimeline, IdleReason, Timeline } from "../../api/types";

export const IDLE_REASONS: readonly IdleReason[] = [
  "fill",
  "dependency",
  "memory",
  "link",
  "slack",
  "drain",
];

export interface DeviceShares {
  device: number;
  /** In F, B and W. */
  computeNs: number;
  /** In gradient reduction and optimizer step. */
  epilogueNs: number;
  idleNs: number;
  byReason: Record<IdleReason, number>;
}

/** The device that is idle longest, and what most of its idle time is spent on. */
export interface LongestWait {
  device: number;
  idleNs: number;
  idleShare: number;
  reason: IdleReason;
  shareOfIdle: number;
}

export function deviceShares(timeline: Timeline): DeviceShares[] {
  return timeline.devices.map((device) => ({
    device: device.device,
    computeNs: device.busy_ns - (device.epilogue_ns ?? 0),
    epilogueNs: device.epilogue_ns ?? 0,
    idleNs: idleOf(device),
    byReason: device.idle_ns,
  }));
}

export function longestWait(timeline: Timeline): LongestWait | null {
  const shares = deviceShares(timeline).filter((entry) => entry.idleNs > 0);
  const worst = shares.reduce<DeviceShares | null>(
    (before, entry) => (before === null || entry.idleNs > before.idleNs ? entry : before),
    null,
  );
  if (worst === null || timeline.makespan_ns === 0) {
    return null;
  }
  const reason = mainReason(worst.byReason);
  return {
    device: worst.device,
    idleNs: worst.idleNs,
    idleShare: worst.idleNs / timeline.makespan_ns,
    reason,
    shareOfIdle: worst.byReason[reason] / worst.idleNs,
  };
}

/** The idle time of all devices by reason, the largest first, without those that do not occur. */
export function idleByReason(timeline: Timeline): { reason: IdleReason; ns: number }[] {
  return IDLE_REASONS.map((reason) => ({
    reason,
    ns: timeline.devices.reduce((sum, device) => sum + (device.idle_ns[reason] ?? 0), 0),
  }))
    .filter((entry) => entry.ns > 0)
    .sort((a, b) => b.ns - a.ns);
}

export function mainReason(byReason: Record<IdleReason, number>): IdleReason {
  return IDLE_REASONS.reduce((main, reason) =>
    (byReason[reason] ?? 0) > (byReason[main] ?? 0) ? reason : main,
  );
}

function idleOf(device: DeviceTimeline): number {
  return IDLE_REASONS.reduce((sum, reason) => sum + (device.idle_ns[reason] ?? 0), 0);
}
