import { describe, expect, it } from "vitest";
import { matches, newestFirst, withChanges, withSameObjects } from "../../src/live/job-changes";
import { jobOf } from "./samples";

const old = jobOf({ id: "a", created_at: "2026-01-01T00:00:01Z" });
const middle = jobOf({ id: "b", created_at: "2026-01-01T00:00:02.500000Z" });
const fresh = jobOf({ id: "c", created_at: "2026-01-01T00:00:03Z" });

function changed(...jobs: ReturnType<typeof jobOf>[]) {
  return new Map(jobs.map((job) => [job.id, job]));
}

describe("matches", () => {
  it("looks for parts of name and model and compares tags whole, as the service does", () => {
    const job = jobOf({
      name: "Night run",
      model: "GPT-14.2B",
      tags: ["night", "gpt"],
      state: "running",
    });
    expect(matches(job, {})).toBe(true);
    expect(matches(job, { name: "night run", tag: "gpt", state: "running" })).toBe(true);
    expect(matches(job, { name: "IGHT", model: "gpt" })).toBe(true);
    expect(matches(job, { name: "day" })).toBe(false);
    expect(matches(job, { model: "llama" })).toBe(false);
    expect(matches(jobOf({ name: null, model: null }), { name: "n" })).toBe(false);
    expect(matches(job, { tag: "gp" })).toBe(false);
    expect(matches(job, { state: "failed" })).toBe(false);
    expect(matches(job, { kind: "sharding" })).toBe(false);
  });
});

describe("withChanges", () => {
  it("replaces a job in its place and puts a new one where its age says", () => {
    const running = { ...old, state: "running" as const };
    const list = withChanges([fresh, old], changed(running, middle), {}, false);
    expect(list.map((job) => job.id)).toEqual(["c", "b", "a"]);
    expect(list[2]).toBe(running);
  });

  it("drops what no longer matches, and adds what now does", () => {
    const over = { ...fresh, state: "succeeded" as const };
    const begun = { ...middle, state: "running" as const };
    const list = withChanges([fresh, old], changed(over, begun), { state: "running" }, false);
    expect(list.map((job) => job.id)).toEqual(["b", "a"]);
  });

  it("leaves what is older than a list that goes on to its page", () => {
    expect(withChanges([fresh, middle], changed(old), {}, true)).toHaveLength(2);
    expect(withChanges([fresh, middle], changed(old), {}, false)).toHaveLength(3);
  });
});

describe("withSameObjects", () => {
  it("keeps the objects of jobs that are as before, and the list if all are", () => {
    const before = [fresh, old];
    const again = [{ ...fresh }, { ...old }];
    expect(withSameObjects(before, again)).toBe(before);
    const after = withSameObjects(before, [{ ...fresh, gap: 0.5 }, { ...old }]);
    expect(after[0]).not.toBe(fresh);
    expect(after[1]).toBe(old);
    expect(withSameObjects(before, [{ ...fresh }])).toHaveLength(1);
  });
});

describe("newestFirst", () => {
  it("orders as the service does: by time, then by id downwards", () => {
    const twin = jobOf({ id: "d", created_at: "2026-01-01T00:00:03.000000Z" });
    expect([old, fresh, twin, middle].sort(newestFirst).map((job) => job.id)).toEqual([
      "d",
      "c",
      "b",
      "a",
    ]);
  });
});
