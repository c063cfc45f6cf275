/** Figures of a plan that follow from its operations. */

import { writerOf } from "../../format";
import type { PipelineResult, Problem, ScheduleDocument } from "./types";

/** The device whose memory is fullest: by its share of the limit, else by bytes. */
export interface Peak {
  device: number;
  bytes: number;
  limitBytes: number | null;
}

/** The idle share of the devices that run something; an epilogue counts as idle, as in the rows. */
export function bubbleRatio(problem: Problem, schedule: ScheduleDocument): number | null {
  if (!schedule.ops?.length || !schedule.makespan_ns) {
    return null;
  }
  const devices = new Set<number | undefined>();
  let busyNs = 0;
  for (const op of schedule.ops) {
    if (op.op === "F" || op.op === "B" || op.op === "W") {
      busyNs += op.end_ns - op.start_ns;
      devices.add(problem.stages[op.stage]?.device);
    }
  }
  return devices.size === 0 ? null : 1 - busyNs / (devices.size * schedule.makespan_ns);
}

/** The epilogue's share of that: gradient reduction and optimizer step after the last operation. */
export function epilogueShare(problem: Problem, makespanNs: number): number {
  const used = new Set(problem.stages.map((stage) => stage.device));
  const epilogueNs = [...used].reduce(
    (sum, device) => sum + (problem.devices[device]?.epilogue_ns ?? 0),
    0,
  );
  return used.size > 0 && makespanNs > 0 ? epilogueNs / (used.size * makespanNs) : 0;
}

/** How times of the plan are written: in the unit of its makespan, as in its chart. */
export function timeWriter(result: PipelineResult): (ns: number) => string {
  return writerOf("time", [result.schedule?.makespan_ns ?? objectiveNs(result)]);
}

export function offloadCount(schedule: ScheduleDocument): number | null {
  return schedule.ops?.filter((op) => op.op === "O").length ?? null;
}

export function fullestDevice(result: PipelineResult): Peak | null {
  const limits = result.problem?.devices.map((device) => device.activation_memory_bytes ?? null);
  const peaks = (result.schedule?.peak_memory_bytes ?? []).map((bytes, device) => ({
    device,
    bytes,
    limitBytes: limits?.[device] ?? null,
  }));
  return peaks.reduce<Peak | null>(
    (fullest, peak) => (fullest === null || fill(peak) > fill(fullest) ? peak : fullest),
    null,
  );
}

/** The most bytes that any device holds. */
export function largestPeak(result: PipelineResult): number | null {
  const peaks = result.schedule?.peak_memory_bytes ?? [];
  return peaks.length > 0 ? Math.max(...peaks) : null;
}

/** Whether the objective is the steady span instead of the makespan. */
export function isSteadySpan(result: PipelineResult): boolean {
  return (result.certificate.objective ?? result.problem?.objective) === "steady_span";
}

/** What the plan is judged by. */
export function objectiveNs(result: PipelineResult): number | null {
  const schedule = result.schedule;
  const own = isSteadySpan(result) ? schedule?.steady_span_ns : schedule?.makespan_ns;
  return result.certificate.value_ns ?? own ?? null;
}

function fill(peak: Peak): number {
  // Devices without a limit come after all that have one, in order of their bytes.
  return peak.limitBytes ? 1 + peak.bytes / peak.limitBytes : peak.bytes / Number.MAX_SAFE_INTEGER;
}
