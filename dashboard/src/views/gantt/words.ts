/** An operation in words, alike in the tooltip, the panel and for screen readers. */

import { deviceOf, type GanttModel } from "../../charts/gantt/model";
import { duration, exactTime } from "../../format";
import { texts } from "../../i18n";

/** "F · S3 · 12": short, where many are listed. */
export function shortName(model: GanttModel, op: number): string {
  const { op: kinds, stage, micro_batch } = model.timeline.ops;
  return texts().gantt.shortName(kinds[op] ?? "F", stage[op] ?? 0, micro_batch[op] ?? 0);
}

export interface OperationFacts {
  title: string;
  device: string;
  link: string | null;
  start: string;
  end: string;
  duration: string;
  why: string;
  after: number | null;
  successors: readonly number[];
}

export function factsOf(model: GanttModel, op: number): OperationFacts {
  const t = texts();
  const { ops } = model.timeline;
  const kind = ops.op[op] ?? "F";
  const stage = ops.stage[op] ?? 0;
  const startNs = ops.start_ns[op] ?? 0;
  const endNs = ops.end_ns[op] ?? 0;
  const after = ops.after[op] ?? null;
  const reason = t.gantt.waitsFor[ops.waits_for[op] ?? "start"];
  const row = model.rows[model.rowOf[op] ?? 0];
  return {
    title: t.gantt.operation(kind, t.common.operations[kind], stage, ops.micro_batch[op] ?? 0),
    device: t.gantt.device(deviceOf(model.timeline, stage)),
    link: row && row.kind !== "device" ? row.link : null,
    start: exactTime(startNs),
    end: exactTime(endNs),
    duration: `${exactTime(endNs - startNs)} (${duration(endNs - startNs)})`,
    why: reason,
    after,
    successors: model.successors[op] ?? [],
  };
}

/** One sentence for screen readers. */
export function spoken(model: GanttModel, op: number): string {
  const facts = factsOf(model, op);
  const after = facts.after === null ? "" : ` ${shortName(model, facts.after)}`;
  return `${facts.title}, ${facts.device}. ${facts.start} – ${facts.end}. ${facts.why}${after}`;
}
