import { expect, it } from "vitest";
import { toggled } from "../../src/pages/jobs/choice";
import { shownName } from "../../src/pages/jobs/names";
import { hasIterations, readSeconds, withTimeLimit } from "../../src/pages/jobs/rerun";
import { jobOf } from "../live/samples";

it("changes the time limit alone", () => {
  const request = { model: "GPT-14.2B", solver: { seed: 3, time_limit_s: 60 } };
  expect(withTimeLimit(request, 120)).toEqual({
    model: "GPT-14.2B",
    solver: { seed: 3, time_limit_s: 120 },
  });
  expect(request.solver.time_limit_s).toBe(60);
  expect(withTimeLimit({ graph: {} }, 5)).toEqual({ graph: {}, solver: { time_limit_s: 5 } });
});

it("leaves out a budget of iterations, with which no time limit is accepted", () => {
  const request = { solver: { search_iterations: 1000, seed: 1 } };
  expect(hasIterations(request)).toBe(true);
  expect(hasIterations({ solver: null })).toBe(false);
  expect(withTimeLimit(request, 9).solver).toEqual({ seed: 1, time_limit_s: 9 });
});

it("reads seconds as people type them", () => {
  expect(readSeconds(" 90 ")).toBe(90);
  expect(readSeconds("0,5")).toBe(0.5);
  for (const text of ["", "0", "-1", "soon", "1e999"]) {
    expect(readSeconds(text)).toBeNull();
  }
});

it("keeps the last two that were ticked", () => {
  expect(toggled(["a"], "b")).toEqual(["a", "b"]);
  expect(toggled(["a", "b"], "a")).toEqual(["b"]);
  expect(toggled(["a", "b"], "c")).toEqual(["b", "c"]);
});

it("calls a job without a name by the beginning of its id", () => {
  expect(shownName(jobOf({ name: "<b>" }))).toBe("<b>");
  expect(shownName(jobOf({ id: "049ea840-fc94" }))).toBe("049ea840");
});
