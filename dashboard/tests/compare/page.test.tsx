import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ComparePage } from "../../src/pages/compare";
import { parseRoute, route } from "../../src/route";

vi.mock("../../src/charts/chart", () => ({ Chart: () => null }));
vi.mock("../../src/views/gantt", () => ({
  GanttView: (props: { title: string; axis?: { untilNs: number } }) => (
    <p class="gantt-of">{`${props.title} until ${props.axis?.untilNs}`}</p>
  ),
}));

let page: HTMLElement;

beforeEach(() => {
  page = document.createElement("div");
  document.body.append(page);
});

afterEach(() => {
  render(null, page);
  page.remove();
  vi.unstubAllGlobals();
});

it("shows two schedules on one axis of time, their difference in words and their moves", async () => {
  serve({
    "jobs/1": job("1", "pipeline"),
    "jobs/2": job("2", "pipeline"),
    "jobs/1/result": result(100, [op("F", 0, 0), op("B", 0, 60)]),
    "jobs/2/result": result(80, [op("F", 0, 0), op("B", 0, 40)]),
    "jobs/1/timeline": timeline(100, 40),
    "jobs/2/timeline": timeline(80, 20),
  });
  await show("#/compare?a=1&b=2");
  await vi.waitFor(() => expect(page.querySelectorAll(".gantt-of")).toHaveLength(2));
  const titles = [...page.querySelectorAll(".gantt-of")].map((one) => one.textContent);
  expect(titles).toEqual(["A: job 1 until 100", "B: job 2 until 100"]);
  expect(page.textContent).toContain("(20.00%) shorter than A");
  expect(page.textContent).toContain("Of 2 operations 1 start earlier and 0 later.");
  expect(page.textContent).toContain("less waiting for memory");
});

it("does not compare plans of different kinds", async () => {
  serve({
    "jobs/1": job("1", "pipeline"),
    "jobs/2": job("2", "sharding"),
    "jobs/1/result": result(100, []),
    "jobs/2/result": {},
  });
  await show("#/compare?a=1&b=2");
  await vi.waitFor(() => expect(page.textContent).toContain("Only plans of one kind"));
});

it("lists finished jobs to choose from where the address names none", async () => {
  serve({
    jobs: {
      jobs: [job("1", "pipeline"), { ...job("2", "pipeline"), state: "failed" }],
      next_cursor: null,
    },
  });
  await show("#/compare");
  await vi.waitFor(() => expect(page.textContent).toContain("job 1"));
  expect(page.textContent).not.toContain("job 2");
  const choose = page.querySelector<HTMLButtonElement>('[aria-label="Compare job 1 as A"]');
  await act(async () => choose?.click());
  expect(route.value.query.get("a")).toBe("1");
});

async function show(address: string): Promise<void> {
  location.hash = address;
  route.value = parseRoute(address);
  await act(async () => render(<ComparePage />, page));
}

/** A service that has just these documents. */
function serve(documents: Record<string, unknown>): void {
  vi.stubGlobal("fetch", async (address: string) => {
    const path = new URL(address).pathname.replace(/^.*\/v1\//, "");
    const steps = path.endsWith("/progress") ? { steps: [], next_offset: 0, over: true } : null;
    const document = documents[path] ?? steps;
    return new Response(JSON.stringify(document ?? {}), { status: document ? 200 : 404 });
  });
}

function job(id: string, kind: string) {
  return { id, kind, name: `job ${id}`, state: "succeeded", best_makespan_ns: 100 };
}

function op(kind: string, stage: number, start_ns: number) {
  return { op: kind, stage, micro_batch: 0, start_ns, end_ns: start_ns + 10 };
}

function result(makespan_ns: number, ops: unknown[]) {
  return {
    problem: { micro_batches: 1, devices: [{}], stages: [{ device: 0, forward_ns: 10 }] },
    schedule: { ops, makespan_ns, steady_span_ns: makespan_ns, peak_memory_bytes: [5] },
    certificate: { value_ns: makespan_ns },
    provenance: {},
  };
}

function timeline(makespan_ns: number, memory: number) {
  return {
    makespan_ns,
    lower_bound_ns: null,
    hosts: [],
    links: [],
    devices: [
      {
        device: 0,
        busy_ns: 60,
        peak_bytes: 5,
        idle_ns: { fill: 0, dependency: 0, memory, link: 0, slack: 0, drain: 0 },
      },
    ],
  };
}
