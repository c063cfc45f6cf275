/** What is chosen and shown in a Gantt chart. */

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Op, Timeline } from "../../api/types";
import { type GanttLayout, layoutOf, type MemoryChoice } from "../../charts/gantt/layout";
import type { GanttModel } from "../../charts/gantt/model";
import { acrossRows, besides, middleOf, nearest } from "../../charts/gantt/search";
import { panBy, reveal, type TimeWindow, whole, zoomAt } from "../../charts/gantt/window";

/** From this many devices on their memory is shown one at a time at first. */
const MANY_DEVICES = 4;

export const ZOOM_STEP = 1.5;
export const PAN_SHARE = 0.2;

export class GanttState {
  readonly view: Signal<TimeWindow>;
  readonly selected = signal<number | null>(null);
  readonly microBatch = signal<number | null>(null);
  readonly showsCriticalPath = signal(false);
  readonly isOpShown = signal<Record<Op, boolean>>({ F: true, B: true, W: true, O: true, R: true });
  readonly memory: Signal<MemoryChoice>;
  readonly layout: ReadonlySignal<GanttLayout>;

  /** `view`, `memory`: the part of the time axis in view and whose memory, where charts share it. */
  constructor(
    readonly model: GanttModel,
    view?: Signal<TimeWindow>,
    memory?: Signal<MemoryChoice>,
  ) {
    this.view = view ?? signal(whole(model.endNs));
    this.memory = memory ?? signal(firstMemory(model.timeline));
    this.layout = computed(() => layoutOf(model, this.memory.value, this.isOpShown.value));
  }

  readonly isVisible = (op: number): boolean => {
    const kind = this.model.timeline.ops.op[op];
    return kind !== undefined && this.isOpShown.value[kind];
  };

  /** Zoom around the selected operation if it is in view, else around the middle. */
  zoom(factor: number, aroundNs?: number): void {
    const { startNs, endNs } = this.view.value;
    const selected = this.selected.value;
    const middle = selected === null ? null : middleOf(this.model, selected);
    const isInView = middle !== null && middle >= startNs && middle <= endNs;
    const around = aroundNs ?? (isInView ? middle : (startNs + endNs) / 2);
    this.view.value = zoomAt(this.view.value, around, factor, this.model.endNs);
  }

  pan(share: number): void {
    const { startNs, endNs } = this.view.value;
    this.view.value = panBy(this.view.value, share * (endNs - startNs), this.model.endNs);
  }

  showAll(): void {
    this.view.value = whole(this.model.endNs);
  }

  select(op: number | null): void {
    this.selected.value = op;
    if (op !== null) {
      const { start_ns, end_ns } = this.model.timeline.ops;
      this.view.value = reveal(
        this.view.value,
        start_ns[op] ?? 0,
        end_ns[op] ?? 0,
        this.model.endNs,
      );
    }
  }

  /** Select an operation that may be of a kind that is hidden. */
  goTo(op: number): void {
    const kind = this.model.timeline.ops.op[op];
    if (kind && !this.isOpShown.value[kind]) {
      this.isOpShown.value = { ...this.isOpShown.value, [kind]: true };
    }
    this.select(op);
  }

  selectBeside(step: -1 | 1): void {
    const from = this.selected.value;
    this.select(
      from === null ? this.firstInView() : besides(this.model, from, step, this.isVisible),
    );
  }

  selectAcross(step: -1 | 1): void {
    const from = this.selected.value;
    this.select(
      from === null ? this.firstInView() : acrossRows(this.model, from, step, this.isVisible),
    );
  }

  /** The first or last operation of the selected one's row. */
  selectEnd(which: "first" | "last"): void {
    const row = this.selected.value === null ? 0 : (this.model.rowOf[this.selected.value] ?? 0);
    const timeNs = which === "first" ? 0 : this.model.endNs;
    const found = nearest(this.model, row, timeNs, this.isVisible);
    if (found !== null) {
      this.select(found);
    }
  }

  /** Light up the micro-batch of an operation, or no more if it is lit up. */
  toggleMicroBatch(op: number): void {
    const microBatch = this.model.timeline.ops.micro_batch[op] ?? null;
    this.microBatch.value = this.microBatch.value === microBatch ? null : microBatch;
  }

  clear(): void {
    this.selected.value = null;
    this.microBatch.value = null;
    this.showsCriticalPath.value = false;
  }

  private firstInView(): number | null {
    const { startNs } = this.view.value;
    for (let row = 0; row < this.model.rows.length; row += 1) {
      const found = nearest(this.model, row, startNs, this.isVisible);
      if (found !== null) {
        return found;
      }
    }
    return null;
  }
}

/** The memory that is shown at first: of all devices if they are few, else of the fullest. */
export function firstMemory({ devices, hosts }: Timeline): MemoryChoice {
  const fullest = devices.reduce<(typeof devices)[number] | null>(
    (most, entry) => (most === null || fullness(entry) > fullness(most) ? entry : most),
    null,
  );
  return devices.length + hosts.length <= MANY_DEVICES || !fullest
    ? { kind: "all" }
    : { kind: "device", number: fullest.device };
}

function fullness(entry: { peak_bytes: number; limit_bytes: number | null }): number {
  return entry.limit_bytes ? entry.peak_bytes / entry.limit_bytes : 0;
}
