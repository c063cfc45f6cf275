// @vitest-environment happy-dom
import { render } from "preact";
import { act } from "preact/test-utils";
import { beforeEach, expect, it } from "vitest";
import { buildModel } from "../../src/charts/gantt/model";
import { exactTime } from "../../src/format";
import { setLanguage } from "../../src/i18n";
import { Details } from "../../src/views/gantt/details";
import { listOf } from "../../src/views/gantt/look";
import { GanttState } from "../../src/views/gantt/state";
import { Summary } from "../../src/views/gantt/summary";
import { syntheticTimeline } from "./synthetic";

const model = buildModel(syntheticTimeline({ devices: 2, microBatches: 4 }));
let root: HTMLElement;

beforeEach(() => {
  setLanguage("en");
  root = document.createElement("div");
});

it("tells a screen reader of the operation that is selected", async () => {
  const state = new GanttState(model);
  await act(() => render(<Details state={state} title="ours" />, root));
  const live = root.querySelector("[aria-live]");
  expect(live?.textContent).toBe("");
  await act(() => state.select(state.model.rows[0]?.ops[1] ?? null));
  expect(live?.textContent).toContain("stage 0, micro-batch 1");
  expect(live?.textContent).toContain("Device 0");
  expect(live?.textContent).toContain("4,201,003 ns");
  expect(live?.textContent).toContain("its device was busy with F0 S0");
});

it("goes to what the selected operation waited for", async () => {
  const state = new GanttState(model);
  await act(() => render(<Details state={state} title="ours" />, root));
  await act(() => state.select(state.model.rows[0]?.ops[1] ?? null));
  const button = [...root.querySelectorAll("button")].find((one) => one.textContent === "F0 S0");
  await act(() => button?.click());
  expect(state.selected.value).toBe(state.model.rows[0]?.ops[0]);
});

it("has the schedule as tables", async () => {
  await act(() => render(<Summary model={model} />, root));
  const captions = [...root.querySelectorAll("caption")].map((caption) => caption.textContent);
  expect(captions).toEqual([
    "Devices: compute, epilogue and idle time, memory",
    "Host links",
    "Host memory",
  ]);
  const { busy_ns = 0, epilogue_ns = 0 } = model.timeline.devices[0] ?? {};
  const exact = [...root.querySelectorAll("tbody tr:first-child [title]")].map((one) =>
    one.getAttribute("title"),
  );
  expect(exact).toContain(exactTime(busy_ns - epilogue_ns));
  expect(exact).toContain(exactTime(epilogue_ns));
  expect(busy_ns - epilogue_ns).toBeGreaterThan(0);
});

it("says it in Chinese", async () => {
  setLanguage("zh");
  await act(() => render(<Summary model={model} />, root));
  expect(root.textContent).toContain("空闲:等待传输");
});

it("names neighbouring devices by their ends", () => {
  expect(listOf([0, 1, 2, 3])).toBe("0–3");
  expect(listOf([0, 4])).toBe("0, 4");
});
