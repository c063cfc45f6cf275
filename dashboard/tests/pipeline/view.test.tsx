import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { PlanSource, ScheduleChoice } from "../../src/api/source";
import type { ResultDocument, Timeline } from "../../src/api/types";
import { Downloads } from "../../src/views/downloads";
import { PipelinePlan } from "../../src/views/pipeline";

vi.mock("../../src/charts/chart", () => ({
  Chart: (props: { label: string }) => <figure>{props.label}</figure>,
}));
vi.mock("../../src/views/gantt", () => ({
  GanttView: (props: { title: string }) => <p class="gantt-of">{props.title}</p>,
}));

const saved = vi.hoisted(() => [] as string[]);
vi.mock("../../src/download", () => ({
  saveBlob: (_: Blob, fileName: string) => saved.push(fileName),
  saveText: (_: string, __: string, fileName: string) => saved.push(fileName),
}));

const EVIL = '<img src=x onerror="window.attacked = true">';

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

describe("a pipeline schedule", () => {
  it("shows the plan's Gantt and that of a classic schedule by a button", async () => {
    const asked: (ScheduleChoice | undefined)[] = [];
    await show(source({ asked }));
    expect(page.querySelector(".gantt-of")?.textContent).toBe("Loadmaster (one_chunk)");
    await press("Show: GPipe one_chunk");
    expect(page.querySelector(".gantt-of")?.textContent).toBe("GPipe (one_chunk)");
    expect(asked).toEqual([undefined, { schedule: "GPipe", placement: "one_chunk" }]);
  });

  it("says why a row has no schedule instead of asking for one", async () => {
    const asked: (ScheduleChoice | undefined)[] = [];
    await show(source({ asked }));
    const select = page.querySelector("select");
    await act(async () => {
      if (select) {
        select.value = "V-Min one_chunk";
        select.dispatchEvent(new Event("change", { bubbles: true }));
      }
    });
    expect(page.textContent).toContain("needs an even number of devices");
    expect(asked).toHaveLength(1);
  });

  it("shows names of the service as text, whatever they are", async () => {
    const result = document_();
    result.comparison[0].name = EVIL;
    result.certificate.bounds[0].name = EVIL;
    await show(source({ result }));
    expect(page.textContent).toContain(EVIL);
    expect(page.querySelector("img")).toBeNull();
  });

  it("says where the time goes", async () => {
    await show(source({}));
    expect(page.textContent).toContain("Device 0 waits longest");
    expect(page.textContent).toContain("75% of that is waiting for memory to become free");
  });

  it("offers no other schedule where there are no timelines of them, as in a report", async () => {
    await show({ ...source({}), hasClassicTimelines: false });
    expect(page.querySelector("select")).toBeNull();
    expect(button("Show: GPipe one_chunk")).toBeUndefined();
  });

  it("says what a kept plan lacks", async () => {
    const { problem, schedule, certificate } = document_();
    const provenance = { stopped_by: "cancelled" };
    await show(source({ result: { problem, schedule, certificate, comparison: [], provenance } }));
    expect(page.textContent).toContain("This plan is not complete");
    expect(page.textContent).toContain("(cancelled)");
  });
});

describe("downloads", () => {
  it("are fetched with the address of the service and the path of the export", async () => {
    const fetched: string[] = [];
    vi.stubGlobal("fetch", async (address: string) => {
      fetched.push(new URL(address).pathname);
      return new Response("{}");
    });
    const csv = {
      format: "csv",
      title: "Operations (CSV)",
      media_type: "text/csv",
      file_name: "ops.csv",
      href: "/v1/jobs/1/export/csv",
    };
    await showDownloads({ ...source({}), exports: async () => [csv] });
    await press("Operations (CSV)");
    await press("Request (JSON)");
    await vi.waitFor(() => expect(saved).toEqual(["ops.csv", "a-plan-request.json"]));
    expect(fetched.map((path) => path.replace(/^.*\/v1\//, ""))).toEqual([
      "jobs/1/export/csv",
      "jobs/1/request",
    ]);
  });

  it("say why a format cannot be had", async () => {
    const stock = {
      format: "torch-csv",
      title: "PyTorch schedule (CSV)",
      media_type: "text/csv",
      file_name: "plan.csv",
      href: null,
      hindrance: "It offloads.",
    };
    await showDownloads({ ...source({}), exports: async () => [stock] });
    await vi.waitFor(() => expect(page.textContent).toContain("It offloads."));
    expect(button("PyTorch schedule (CSV)")).toBeUndefined();
  });

  it("are the result alone in a report", async () => {
    await showDownloads({ ...source({}), isReport: true });
    const titles = [...page.querySelectorAll("button")].map((one) => one.textContent);
    expect(titles).toEqual(["Result (JSON)"]);
  });
});

async function show(given: PlanSource): Promise<void> {
  await act(async () => render(<PipelinePlan source={given} result={given.result} />, page));
}

async function showDownloads(given: PlanSource): Promise<void> {
  await act(async () => render(<Downloads source={given} />, page));
}

function button(name: string): HTMLButtonElement | undefined {
  return [...page.querySelectorAll("button")].find(
    (one) => (one.getAttribute("aria-label") ?? one.textContent) === name,
  );
}

async function press(name: string): Promise<void> {
  await vi.waitFor(() => expect(button(name)?.disabled, name).toBe(false));
  await act(async () => button(name)?.click());
}

function source(given: {
  result?: ResultDocument;
  asked?: (ScheduleChoice | undefined)[];
}): PlanSource {
  return {
    job: { id: "1", name: "a plan", kind: "pipeline", state: "succeeded" } as PlanSource["job"],
    result: given.result ?? document_(),
    steps: [],
    timeline: async (choice) => {
      given.asked?.push(choice);
      return TIMELINE;
    },
    exports: async () => [],
    hasClassicTimelines: true,
  };
}

const TIMELINE = {
  makespan_ns: 100,
  links: [],
  devices: [
    {
      device: 0,
      busy_ns: 60,
      idle_ns: { fill: 10, dependency: 0, memory: 30, link: 0, slack: 0, drain: 0 },
    },
  ],
} as unknown as Timeline;

function document_(): ResultDocument {
  const row = {
    name: "GPipe",
    placement: "one_chunk",
    hypothetical: false,
    makespan_ns: 120,
    steady_span_ns: 120,
    bubble_ratio: 0.2,
    peak_memory_bytes: [10],
    offloads: 0,
    fits: true,
    reason: null,
  };
  const missed = {
    ...row,
    name: "V-Min",
    makespan_ns: null,
    steady_span_ns: null,
    bubble_ratio: null,
    peak_memory_bytes: null,
    offloads: null,
    fits: false,
    reason: "needs an even number of devices",
  };
  return {
    problem: { micro_batches: 1, devices: [{}], stages: [{ device: 0 }] },
    schedule: { ops: [], makespan_ns: 100, steady_span_ns: 100, peak_memory_bytes: [10] },
    comparison: [row, missed],
    certificate: {
      value_ns: 100,
      lower_bound_ns: 90,
      bound_name: "tail",
      bounds: [{ name: "tail", value_ns: 90 }],
    },
    provenance: { placement: "one_chunk", stopped_by: "time limit" },
  };
}
