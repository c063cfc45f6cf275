import { expect, it } from "vitest";
import { hasPlan, objectiveOf, spentSeconds } from "../../src/live/objective";
import { jobOf } from "./samples";

it("reads the figures of the job's kind", () => {
  const job = jobOf({ best_makespan_ns: 3, best_step_time_ns: 5, best_objective_bytes: 7 });
  expect(objectiveOf("pipeline", job).best).toBe(3);
  expect(objectiveOf("training", job).best).toBe(5);
  expect(objectiveOf("sharding", job)).toEqual({ best: 7, bound: null, unit: "bytes" });
});

it("counts on while the solver runs, from its last sign of life", () => {
  const running = jobOf({ spent_s: 10, heartbeat_age_s: 2 });
  expect(spentSeconds(running, 1000, 4000)).toBe(15);
  expect(spentSeconds({ ...running, state: "succeeded" }, 1000, 4000)).toBe(10);
  // The tick that is shown may be older than the answer.
  expect(spentSeconds(running, 4000, 3500)).toBe(12);
});

it("offers plans of jobs that succeeded, and of cancelled ones that had found one", () => {
  expect(hasPlan(jobOf({ state: "succeeded" }))).toBe(true);
  expect(hasPlan(jobOf({ state: "cancelled" }))).toBe(false);
  expect(hasPlan(jobOf({ state: "cancelled", best_makespan_ns: 4 }))).toBe(true);
  expect(hasPlan(jobOf({ state: "running", best_makespan_ns: 4 }))).toBe(false);
});
