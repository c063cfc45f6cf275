import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Diagnosis } from "../../src/api/types";
import { setLanguage } from "../../src/i18n";
import { DiagnosePage } from "../../src/pages/diagnose";
import { json, PlayedService, problem } from "../live/service";

const answer: Diagnosis = {
  symptoms: [{ symptom: "nan_loss", found_in: "request", evidence: [], causes: ["fp16_overflow"] }],
  causes: [
    {
      cause: "straggler_gpu",
      state: "supported",
      symptoms: ["plan_with_bad_throughput"],
      weight: 0.5,
      summary: "Stage 2 takes 2.20 x what is usual here.",
      evidence: [
        {
          what: "computation of stage 2",
          value: 2.2,
          unit: "ratio",
          threshold: 1.15,
          speaks: "for",
          rule: "A rule.",
          source: "Its source.",
          stage: 2,
          device: null,
        },
      ],
      checks: [{ command: "nvidia-smi -q", look_for: "Clocks." }],
      remedies: [
        {
          remedy: "restore_gpu",
          detail: "Lock clocks.",
          predicted_effect: {
            quantity: "iteration_ns",
            unit: "ns",
            before: 200_000_000,
            after: 100_000_000,
            change: -0.5,
            basis: "timed exactly",
          },
          no_prediction: null,
          predicted_cost: null,
          request_changes: { "solver.offload_strategy": "conservative" },
          figures: [{ schedule: "AdaOffload", iteration_ns: 1000 }],
        },
      ],
      needs: [],
    },
    {
      cause: "jitter",
      state: "ruled_out",
      symptoms: [],
      weight: null,
      summary: "Steady.",
      evidence: [],
      checks: [],
      remedies: [],
      needs: ["telemetry"],
    },
  ],
  assumptions: [],
  warnings: [],
};

let page: HTMLElement;
let service: PlayedService;
let posted: unknown;

beforeEach(async () => {
  setLanguage("en");
  service = new PlayedService();
  service.answers.set("diagnoses", async (request) => {
    posted = await request.json();
    return json(answer);
  });
  page = document.createElement("div");
  document.body.append(page);
  await act(async () => render(<DiagnosePage />, page));
});

afterEach(() => {
  render(null, page);
  page.remove();
  setLanguage("en");
  vi.unstubAllGlobals();
});

async function tickAndSend(): Promise<void> {
  const boxes = [...page.querySelectorAll("label")];
  const box = boxes
    .find((label) => label.textContent?.includes("NaN loss"))
    ?.querySelector("input");
  await act(async () => box?.click());
  await act(async () => page.querySelector<HTMLButtonElement>('button[type="submit"]')?.click());
  await act(async () => new Promise((settle) => setTimeout(settle, 0)));
}

it("sends what was ticked and shows causes with evidence, checks, remedies and effects", async () => {
  expect(page.querySelector<HTMLButtonElement>('button[type="submit"]')?.disabled).toBe(true);
  await tickAndSend();
  expect(posted).toEqual({ symptoms: ["nan_loss"] });
  const text = page.textContent ?? "";
  expect(text).toContain("A slow GPU");
  expect(text).toContain("speaks for it");
  expect(text).toContain("Predicted: time of an iteration 200.0 ms → 100.0 ms (-50.0%)");
  expect(text).toContain('solver.offload_strategy = "conservative"');
  expect(text).toContain("Ruled out by the numbers (1)");
  expect(page.querySelector('button[aria-label="Copy: nvidia-smi -q"]')).not.toBeNull();
});

it("shows the service's words in Chinese", async () => {
  await tickAndSend();
  await act(async () => setLanguage("zh"));
  expect(page.textContent).toContain("个别 GPU 偏慢");
  expect(page.textContent).toContain("恢复该 GPU");
});

it("shows why a diagnosis was refused", async () => {
  service.answers.set("diagnoses", () => problem(422, "invalid_request"));
  await tickAndSend();
  expect(page.querySelector('[role="alert"]')?.textContent).toContain("invalid_request");
});
