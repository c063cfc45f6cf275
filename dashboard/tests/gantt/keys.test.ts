import { beforeEach, expect, it } from "vitest";
import { buildModel } from "../../src/charts/gantt/model";
import { handleKey } from "../../src/views/gantt/keys";
import { GanttState } from "../../src/views/gantt/state";
import { syntheticTimeline } from "./synthetic";

let state: GanttState;

function press(key: string, shiftKey = false): boolean {
  return handleKey({ key, shiftKey, ctrlKey: false, metaKey: false, altKey: false }, state);
}

function span(): number {
  return state.view.value.endNs - state.view.value.startNs;
}

beforeEach(() => {
  state = new GanttState(buildModel(syntheticTimeline({ devices: 2, microBatches: 4 })));
});

it("selects operations with the arrows, the first one first", () => {
  const row = state.model.rows[0];
  press("ArrowRight");
  expect(state.selected.value).toBe(row?.ops[0]);
  press("ArrowRight");
  expect(state.selected.value).toBe(row?.ops[1]);
  press("ArrowLeft");
  expect(state.selected.value).toBe(row?.ops[0]);
  press("ArrowDown");
  expect(state.model.rowOf[state.selected.value ?? -1]).toBe(1);
  press("ArrowUp");
  expect(state.model.rowOf[state.selected.value ?? -1]).toBe(0);
});

it("goes to the ends of a row", () => {
  press("End");
  expect(state.selected.value).toBe(state.model.rows[0]?.ops.at(-1));
  press("Home");
  expect(state.selected.value).toBe(state.model.rows[0]?.ops[0]);
});

it("zooms, pans and shows all again", () => {
  press("+");
  press("+");
  expect(span()).toBeLessThan(state.model.endNs / 2);
  const before = state.view.value.startNs;
  press("ArrowRight", true);
  expect(state.view.value.startNs).toBeGreaterThan(before);
  expect(state.selected.value).toBeNull();
  press("0");
  expect(span()).toBe(state.model.endNs);
});

it("keeps what is selected in view", () => {
  for (let count = 0; count < 6; count += 1) {
    press("+");
  }
  press("End");
  const op = state.selected.value ?? -1;
  const { start_ns, end_ns } = state.model.timeline.ops;
  expect(state.view.value.startNs).toBeLessThanOrEqual(start_ns[op] ?? 0);
  expect(state.view.value.endNs).toBeGreaterThanOrEqual(end_ns[op] ?? 0);
});

it("lights up the selected operation's micro-batch, and clears", () => {
  press("ArrowRight");
  press("Enter");
  expect(state.microBatch.value).toBe(0);
  press("Enter");
  expect(state.microBatch.value).toBeNull();
  press("Enter");
  state.showsCriticalPath.value = true;
  press("Escape");
  expect([state.microBatch.value, state.selected.value, state.showsCriticalPath.value]).toEqual([
    null,
    null,
    false,
  ]);
});

it("leaves other keys, and the browser's own, alone", () => {
  expect(press("Tab")).toBe(false);
  const event = { key: "+", shiftKey: false, ctrlKey: true, metaKey: false, altKey: false };
  expect(handleKey(event, state)).toBe(false);
  expect(span()).toBe(state.model.endNs);
});

it("shows a hidden kind of operation again when one is gone to", () => {
  state.isOpShown.value = { ...state.isOpShown.value, B: false };
  const backward = state.model.timeline.ops.op.indexOf("B");
  state.goTo(backward);
  expect(state.isOpShown.value.B).toBe(true);
  expect(state.selected.value).toBe(backward);
});
