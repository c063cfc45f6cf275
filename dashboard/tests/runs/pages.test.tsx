import { type ComponentChild, render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { setLanguage } from "../../src/i18n";
import { RunPage } from "../../src/pages/run";
import { RunsPage } from "../../src/pages/runs";
import { json, PlayedService, problem } from "../live/service";
import { estimateOf, itemOf, versionOf, viewOf } from "./samples";

vi.mock("../../src/views/gantt", () => ({
  GanttView: (props: { title: string }) => <p class="gantt-of">{props.title}</p>,
}));

const EVIL = '<img src=x onerror="window.attacked = true">';

let page: HTMLElement;
let service: PlayedService;

beforeEach(() => {
  vi.useFakeTimers();
  setLanguage("en");
  service = new PlayedService();
  page = document.createElement("div");
  document.body.append(page);
});

afterEach(() => {
  render(null, page);
  page.remove();
  setLanguage("en");
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function show(what: ComponentChild): Promise<void> {
  await act(async () => render(what, page));
  await pass(0);
}

async function pass(ms: number): Promise<void> {
  await act(async () => {
    await vi.advanceTimersByTimeAsync(ms);
  });
}

async function press(label: string): Promise<void> {
  const buttons = [...document.querySelectorAll("button")];
  await act(async () => buttons.find((one) => one.textContent === label)?.click());
  await pass(0);
}

function following() {
  return viewOf({
    name: EVIL,
    newest_iteration: 90,
    newest_version: 2,
    running_version: 2,
    versions: [
      versionOf({
        version: 2,
        reason: "stage_time_drift",
        apply_at_iteration: 55,
        predicted_gain: 0.125,
        gain_low: 0.1,
        measured_gain: 0.11,
      }),
      versionOf({ state: "superseded" }),
    ],
    stages: [
      {
        stage: 1,
        quantities: {
          forward_ns: estimateOf({
            value: 22_000_000,
            drift: {
              kind: "stage_time_drift",
              before: 10_000_000,
              after: 22_000_000,
              noise: 9,
              since: 30,
            },
          }),
        },
      },
    ],
    re_solve: { job_id: "job-7", state: "running", reason: "interval", since_iteration: 88 },
    events: [
      { seq: 0, at: "2026-01-01T00:00:00Z", iteration: null, kind: "created", detail: EVIL },
    ],
  });
}

it("says what runs, what it promised and held, what drifted, and what is looked for", async () => {
  service.answers.set("runs/run-1", () => json(following()));
  service.answers.set("runs/run-1/plan/2/timeline", () => json({}));
  await show(<RunPage id="run-1" />);
  await pass(100);
  expect(page.textContent).toContain("Version 2 runs from iteration 55 on.");
  expect(page.textContent).toContain("12.50%");
  expect(page.textContent).toContain("11.00%");
  expect(page.textContent).toContain("times of a stage moved");
  expect(page.textContent).toContain("forward (F): 10.00 ms → 22.00 ms since iteration 30");
  expect(page.querySelector('a[href="#/jobs/job-7"]')).not.toBeNull();
  expect(page.querySelector(".gantt-of")?.textContent).toBe("Schedule of version 2");
  expect(page.textContent).toContain(EVIL);
  expect(page.querySelector("img")).toBeNull();
});

it("says it in Chinese, with the service's words", async () => {
  setLanguage("zh");
  service.answers.set("runs/run-1", () => json(following()));
  await show(<RunPage id="run-1" />);
  expect(page.textContent).toContain("版本 2 自迭代 55 起运行。");
  expect(page.textContent).toContain("某阶段的时间漂移");
});

it("keeps what it shows while nothing changes, and shows what does", async () => {
  let answer = () => json(viewOf({ newest_iteration: 41 }), { ETag: 'W/"1"' });
  service.answers.set("runs/run-1", (request) =>
    request.headers.get("If-None-Match") === 'W/"1"' && answer().headers.get("ETag") === 'W/"1"'
      ? new Response(null, { status: 304 })
      : answer(),
  );
  await show(<RunPage id="run-1" />);
  expect(page.textContent).toContain("There is no plan yet");
  await pass(2000);
  expect(service.times("runs/run-1")).toBe(2);
  expect(page.textContent).toContain("41");
  answer = () => json(viewOf({ state: "stopped", newest_iteration: 73 }), { ETag: 'W/"2"' });
  await pass(2000);
  expect(page.textContent).toContain("73");
  await pass(10_000);
  expect(service.times("runs/run-1")).toBe(3);
});

it("names no gain of a plan that there is nothing to compare with", async () => {
  const versions = [versionOf({ reason: "given", job_id: null })];
  service.answers.set("runs/run-1", () => json(viewOf({ running_version: 1, versions })));
  await show(<RunPage id="run-1" />);
  const names = [...page.querySelectorAll("dt")].map((name) => name.textContent);
  expect(names).toContain("Predicted gain");
  expect(names).not.toContain("Measured gain");
  expect(page.textContent).toContain("nothing to compare with");
});

it("draws a plan that was given with the run, and says where a plan is not kept", async () => {
  const versions = [versionOf({ reason: "given", job_id: null })];
  service.answers.set("runs/run-1", () => json(viewOf({ running_version: 1, versions })));
  service.answers.set("runs/run-1/plan/1/timeline", () => json({}));
  await show(<RunPage id="run-1" />);
  await pass(100);
  expect(page.querySelector(".gantt-of")?.textContent).toBe("Schedule of version 1");
  expect(page.textContent).not.toContain("The whole plan");
  render(null, page);
  service.answers.set("runs/run-1/plan/1/timeline", () => problem(404, "version_not_found"));
  await show(<RunPage id="run-1" />);
  await pass(100);
  expect(page.textContent).toContain("The plan of this version is not kept any more");
});

it("stops a run only once that is confirmed", async () => {
  service.answers.set("runs/run-1", (request) =>
    json(viewOf({ state: request.method === "DELETE" ? "stopped" : "active" })),
  );
  const deletions = () => service.asked.filter(({ method }) => method === "DELETE").length;
  await show(<RunPage id="run-1" />);
  await press("Stop the run");
  expect(deletions()).toBe(0);
  const confirm = [...document.querySelectorAll("dialog button")].find(
    (one) => one.textContent === "Stop the run",
  );
  await act(async () => (confirm as HTMLButtonElement).click());
  await pass(0);
  expect(deletions()).toBe(1);
});

it("asks for proposals when they are wanted, and says where there is no plan yet", async () => {
  service.answers.set("runs/run-1", () => json(viewOf()));
  service.answers.set("runs/run-1/proposals", () => problem(409, "no_plan_yet"));
  await show(<RunPage id="run-1" />);
  expect(service.times("runs/run-1/proposals")).toBe(0);
  await press("Look for a better shape");
  expect(page.textContent).toContain("There is no plan yet to compare with.");
});

it("shows a proposal with its prediction beside the rule's baseline", async () => {
  service.answers.set("runs/run-1", () => json(viewOf()));
  service.answers.set("runs/run-1/proposals", () =>
    json({
      imbalance: 2.2,
      threshold: 1.15,
      proposals: [
        {
          kind: "both",
          micro_batches: 16,
          micro_batch_size: 2,
          layers_per_stage: [7, 9],
          predicted_ns: 200_000_000,
          running_ns: 250_000_000,
          same_shape_ns: null,
          lower_bound_ns: 190_000_000,
          predicted_gain: 0.2,
          found_by: "AdaOffload",
          needs_restart: true,
          baseline: { micro_batches: 24, micro_batch_size: 1, predicted_ns: null, reason: "no" },
          reason: "Stage 1 takes longer.",
          notes: ["A note."],
        },
        {
          kind: "micro_batches",
          micro_batches: 32,
          micro_batch_size: null,
          layers_per_stage: null,
          predicted_ns: 210_000_000,
          running_ns: 250_000_000,
          same_shape_ns: null,
          lower_bound_ns: 190_000_000,
          predicted_gain: 0.16,
          found_by: "AdaOffload",
          needs_restart: false,
          baseline: null,
          reason: "Filling takes less.",
          notes: [],
        },
      ],
      notes: ["No layers are moved."],
    }),
  );
  await show(<RunPage id="run-1" />);
  await press("Look for a better shape");
  expect(page.textContent).toContain("No layers are moved.");
  expect(page.textContent).not.toContain("null");
  for (const text of ["2.20 times", "20.00%", "16 of 2 samples", "7, 9", "✓ yes", "A note."]) {
    expect(page.textContent).toContain(text);
  }
  expect(page.textContent).toContain("24 micro-batches, –");
});

it("says that there is no such run", async () => {
  await show(<RunPage id="other" />);
  expect(page.textContent).toContain("There is no such run.");
});

it("lists runs page by page, each asked for again with its tag", async () => {
  const first = itemOf({
    id: "a",
    name: "first",
    newest_version: 3,
    newest_state: "scheduled",
    predicted_gain: 0.125,
  });
  service.answers.set("runs", (request) =>
    new URL(request.url).searchParams.has("cursor")
      ? json({
          runs: [itemOf({ id: "b", name: "second", predicted_gain: 0.2, measured_gain: -0.03 })],
          next_cursor: null,
        })
      : request.headers.get("If-None-Match") === '"p1"'
        ? new Response(null, { status: 304 })
        : json({ runs: [first], next_cursor: "next" }, { ETag: '"p1"' }),
  );
  await show(<RunsPage />);
  expect(page.textContent).toContain("version 3");
  expect(page.textContent).toContain("scheduled");
  expect(page.textContent).toContain("12.50% predicted");
  expect(page.textContent).not.toContain("second");
  await press("Load more");
  expect(page.textContent).toContain("first");
  expect(page.textContent).toContain("second");
  expect(page.querySelector(".gain-bad")?.textContent).toContain("3.00%");
  expect(page.textContent).not.toContain("20.00%");
});

it("says how a run is made where there is none", async () => {
  service.answers.set("runs", () => json({ runs: [], next_cursor: null }));
  await show(<RunsPage />);
  expect(page.textContent).toContain("There are no runs yet.");
  expect(page.textContent).toContain("/v1/runs");
});
