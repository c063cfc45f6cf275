/** The plan and the baselines as rows of one table. */

import type { Planned } from "./model";
import type { Baseline, Plan } from "./types";

export interface BaselineRow {
  key: string;
  name: string;
  isPlan: boolean;
  isApplicable: boolean;
  fits: boolean | null;
  peakBytes: number | null;
  keptBytes: number | null;
  redundantBytes: number | null;
  communicationBytes: number | null;
  reshardingBytes: number | null;
  sentBytes: number | null;
  objective: number | null;
  stepNs: number | null;
  throughput: number | null;
  /** Why it does not apply, or what else there is to say. */
  note: string | null;
}

/** The plan comes first. */
export function baselineRows(part: Planned, planName: string): BaselineRow[] {
  const own = {
    ...figures(part.plan),
    key: "plan",
    name: planName,
    isPlan: true,
    isApplicable: true,
    fits: part.certificate?.fits ?? null,
    note: null,
  };
  const others = (part.baselines ?? []).map((one, index) => ({
    ...figures(one),
    key: String(index),
    name: one.name,
    isPlan: false,
    isApplicable: one.applicable,
    fits: one.fits ?? null,
    note: (one.applicable ? one.note : one.reason) ?? null,
  }));
  return [own, ...others];
}

function figures(one: Plan | Baseline) {
  const communicationBytes = one.communication_bytes ?? null;
  const reshardingBytes = one.resharding_bytes ?? null;
  return {
    peakBytes: one.predicted_peak_bytes ?? null,
    keptBytes: one.memory_bytes ?? null,
    redundantBytes: one.redundant_bytes ?? null,
    communicationBytes,
    reshardingBytes,
    sentBytes: communicationBytes === null ? null : communicationBytes + (reshardingBytes ?? 0),
    objective: one.objective ?? null,
    stepNs: one.predicted_step_ns ?? null,
    throughput: one.relative_throughput ?? null,
  };
}
