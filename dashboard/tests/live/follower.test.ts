// @vitest-environment happy-dom
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { keyRefused, setApiKey } from "../../src/api/key";
import { TIMING } from "../../src/live/follower";
import { JobList } from "../../src/live/job-list";
import { OneJob } from "../../src/live/one-job";
import { jobOf, stepOf } from "./samples";
import { json, PlayedService, PlayedStream, problem } from "./service";

let service: PlayedService;
let stop: () => void = () => {};

beforeEach(() => {
  vi.useFakeTimers();
  service = new PlayedService();
});

afterEach(() => {
  stop();
  setApiKey(null);
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** Let timers fire, and what waits for streams go on. */
async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  for (let turn = 0; turn < 20; turn += 1) {
    await Promise.resolve();
  }
  await vi.advanceTimersByTimeAsync(0);
}

function listOf(...jobs: ReturnType<typeof jobOf>[]) {
  return () => json({ jobs, next_cursor: null });
}

function streams(path: string): PlayedStream[] {
  const opened: PlayedStream[] = [];
  service.answers.set(path, (request) => {
    const stream = new PlayedStream();
    opened.push(stream);
    return stream.answer(request);
  });
  return opened;
}

function following<T extends JobList | OneJob>(store: T): T {
  stop = store.start();
  return store;
}

describe("the list of jobs", () => {
  it("is asked for, then kept by a stream, a few times a second at most", async () => {
    const job = jobOf({ id: "a" });
    service.answers.set("jobs", listOf(job));
    const opened = streams("events");
    const list = following(new JobList({ kind: "pipeline" }));
    await pass(10);
    expect(list.jobs.value?.map((each) => each.id)).toEqual(["a"]);
    expect(service.asked[0]?.path).toBe("jobs?limit=50&kind=pipeline");

    opened[0]?.comment();
    await pass(10);
    expect(list.follower.mode.value).toBe("live");
    let updates = -1;
    const end = list.jobs.subscribe(() => {
      updates += 1;
    });
    for (let step = 1; step <= 100; step += 1) {
      opened[0]?.tell("job", { ...job, best_makespan_ns: 1000 - step });
      await pass(10);
    }
    await pass(300);
    end();
    expect(list.jobs.value?.[0]?.best_makespan_ns).toBe(900);
    expect(updates).toBeGreaterThan(1);
    expect(updates).toBeLessThanOrEqual(5);
    opened[0]?.tell("job", jobOf({ id: "b", created_at: "2026-01-02T00:00:00Z" }));
    opened[0]?.tell("job", jobOf({ id: "c", kind: "training" }));
    await pass(300);
    expect(list.jobs.value?.map((each) => each.id)).toEqual(["b", "a"]);
  });

  it("is asked for once more when the stream is open, and loses nothing told meanwhile", async () => {
    const job = jobOf({ id: "a" });
    let late: (response: Response) => void = () => {};
    service.answers.set("jobs", listOf(job));
    const opened = streams("events");
    const list = following(new JobList({}));
    await pass(10);
    service.answers.set("jobs", () => new Promise((settle) => (late = settle)));
    opened[0]?.comment();
    await pass(10);
    expect(service.times("jobs")).toBe(2);
    opened[0]?.tell("job", { ...job, state: "succeeded" });
    await pass(300);
    late(listOf(job)());
    await pass(300);
    expect(list.jobs.value?.[0]?.state).toBe("succeeded");
  });

  it("of an older service is asked for again and again, with what is known already", async () => {
    service.answers.set("jobs", () =>
      json({ jobs: [jobOf()], next_cursor: null }, { ETag: 'W/"1"' }),
    );
    const list = following(new JobList({}));
    await pass(10);
    await pass(10_000);
    expect(list.follower.mode.value).toBe("polling");
    expect(service.times("events")).toBe(1);
    expect(service.times("jobs")).toBeGreaterThan(3);
    expect(service.asked.at(-1)?.headers.get("If-None-Match")).toBe('W/"1"');
  });

  it("polls where there are too many streams, and tries the stream when it was told to", async () => {
    service.answers.set("jobs", listOf(jobOf()));
    service.answers.set("events", () => problem(503, "too_many_streams", { "Retry-After": "8" }));
    const list = following(new JobList({}));
    await pass(6000);
    expect(list.follower.mode.value).toBe("polling");
    expect(service.times("events")).toBe(1);
    const opened = streams("events");
    await pass(6000);
    opened[0]?.comment();
    await pass(10);
    expect(list.follower.mode.value).toBe("live");
  });

  it("comes again after a reconnect, and after a stream that is silent or breaks", async () => {
    service.answers.set("jobs", listOf(jobOf()));
    const opened = streams("events");
    const list = following(new JobList({}));
    await pass(10);
    opened[0]?.tell("reconnect", { reason: "long enough" });
    await pass(TIMING.pollMs + 1000);
    expect(opened).toHaveLength(2);
    opened[1]?.comment();
    await pass(TIMING.silentMs + 10);
    expect(opened[1]?.isOpen).toBe(false);
    await pass(10_000);
    expect(opened.length).toBeGreaterThanOrEqual(3);
    opened.at(-1)?.comment();
    await pass(10);
    expect(list.follower.mode.value).toBe("live");
    const before = opened.length;
    opened.at(-1)?.fail();
    await pass(10_000);
    expect(opened.length).toBeGreaterThan(before);
  });

  it("says that it is stale once nothing was heard for long, and a comment counts", async () => {
    service.answers.set("jobs", listOf(jobOf()));
    const opened = streams("events");
    const list = following(new JobList({}));
    const end = list.follower.staleS.subscribe(() => {});
    await pass(10);
    for (let i = 0; i < 3; i += 1) {
      opened[0]?.comment();
      await pass(15_000);
    }
    expect(list.follower.staleS.value).toBeNull();
    service.answers.clear();
    service.answers.set("jobs", () => Promise.reject(new TypeError("refused")));
    opened[0]?.fail();
    await pass(25_000);
    expect(list.follower.staleS.value).toBeGreaterThanOrEqual(20);
    service.answers.set("jobs", listOf(jobOf()));
    await pass(40_000);
    expect(list.follower.staleS.value).toBeNull();
    end();
  });

  it("waits for a key where none or a wrong one was given", async () => {
    service.answers.set("jobs", () => problem(401, "not_authenticated"));
    const list = following(new JobList({}));
    await pass(60_000);
    expect(keyRefused.value).toBe(true);
    expect(list.follower.mode.value).toBe("refused");
    expect(service.asked).toHaveLength(1);
  });

  it("does not ask again for what is refused, until it is told to", async () => {
    service.answers.set("jobs", () => problem(422, "invalid_request"));
    const list = following(new JobList({ state: "nonsense" }));
    await pass(60_000);
    expect(list.follower.mode.value).toBe("failed");
    expect(service.asked).toHaveLength(1);
    service.answers.set("jobs", listOf(jobOf()));
    list.follower.retry();
    await pass(10);
    expect(list.jobs.value).toHaveLength(1);
    stop();
    await pass(0);
    const asked = service.asked.length;
    await pass(60_000);
    expect(service.asked).toHaveLength(asked);
  });

  it("follows nothing while the page is long out of sight", async () => {
    service.answers.set("jobs", listOf(jobOf()));
    const opened = streams("events");
    const hidden = vi.spyOn(document, "hidden", "get").mockReturnValue(true);
    const list = following(new JobList({}));
    await pass(10);
    opened[0]?.comment();
    await pass(30_000);
    expect(opened[0]?.isOpen).toBe(true);
    await pass(40_000);
    expect(opened.every((stream) => !stream.isOpen)).toBe(true);
    expect(list.follower.mode.value).toBe("paused");
    const asked = service.asked.length;
    await pass(600_000);
    expect(service.asked).toHaveLength(asked);
    expect(list.follower.staleS.value).toBeNull();
    hidden.mockReturnValue(false);
    document.dispatchEvent(new Event("visibilitychange"));
    await pass(10);
    expect(service.asked.length).toBeGreaterThan(asked);
    hidden.mockRestore();
  });

  it("goes on with further pages, and keeps them when it is asked for again", async () => {
    const pages: Record<string, unknown> = {
      "": { jobs: [jobOf({ id: "b" })], next_cursor: "next" },
      next: { jobs: [jobOf({ id: "a" })], next_cursor: null },
    };
    service.answers.set("jobs", (request) =>
      json(pages[new URL(request.url).searchParams.get("cursor") ?? ""]),
    );
    const list = following(new JobList({}));
    await pass(10);
    // A page of one job is less than what is wanted, so the next was asked for at once.
    expect(list.jobs.value?.map((job) => job.id)).toEqual(["b", "a"]);
    expect(list.hasMore.value).toBe(false);
  });
});

describe("one job", () => {
  it("takes state, steps and lines from the stream and goes on where it was cut off", async () => {
    service.answers.set("jobs/a", () => json(jobOf({ id: "a" })));
    const opened = streams("jobs/a/events");
    const store = following(new OneJob("a"));
    await pass(10);
    opened[0]?.tell("progress", stepOf({ seq: 0 }), "1-0-");
    opened[0]?.tell("log", { offset: 0, lines: ["one", "two"], next_offset: 2 }, "1-2-");
    opened[0]?.tell("state", jobOf({ id: "a", phase: "bounds" }), "1-2-ab");
    await pass(300);
    expect(store.seen.value?.job.phase).toBe("bounds");
    expect(store.steps.value).toHaveLength(1);
    expect(store.log.value.next).toBe(2);
    opened[0]?.tell("reconnect", { reason: "the service ends" }, "1-2-ab");
    await pass(5000);
    const again = service.asked.findLast((request) => request.path.startsWith("jobs/a/events"));
    expect(again?.path).toBe("jobs/a/events?log=true");
    expect(again?.headers.get("Last-Event-ID")).toBe("1-2-ab");
    opened.at(-1)?.tell("state", jobOf({ id: "a", state: "succeeded" }), "1-2-cd");
    opened.at(-1)?.tell("end", { state: "succeeded" }, "1-2-end");
    service.answers.set("jobs/a", () => json(jobOf({ id: "a", state: "succeeded" })));
    service.answers.set("jobs/a/progress", () => json({ steps: [], next_offset: 1, over: true }));
    service.answers.set("jobs/a/log", () => json({ lines: [], next_offset: 2, over: true }));
    await pass(5000);
    expect(store.seen.value?.job.state).toBe("succeeded");
    expect(store.follower.mode.value).toBe("over");
    const asked = service.asked.length;
    await pass(60_000);
    expect(service.asked).toHaveLength(asked);
  });

  it("asks for steps and lines where there is no stream", async () => {
    const steps = [stepOf({ seq: 0 }), stepOf({ seq: 1 })];
    service.answers.set("jobs/a", () => json(jobOf({ id: "a" })));
    service.answers.set("jobs/a/events", () => problem(429, "too_many_streams"));
    service.answers.set("jobs/a/progress", (request) => {
      const offset = Number(new URL(request.url).searchParams.get("offset"));
      return json({ steps: steps.slice(offset), next_offset: steps.length, over: false });
    });
    service.answers.set("jobs/a/log", (request) => {
      const offset = Number(new URL(request.url).searchParams.get("offset"));
      return json({ lines: ["x", "y", "z"].slice(offset), next_offset: 3, over: false });
    });
    const store = following(new OneJob("a"));
    await pass(3000);
    expect(store.steps.value.map((step) => step.seq)).toEqual([0, 1]);
    expect(store.log.value.next).toBe(3);
  });

  it("that does not exist is asked for once", async () => {
    const store = following(new OneJob("nobody's"));
    await pass(60_000);
    expect(store.follower.mode.value).toBe("failed");
    expect(service.asked).toHaveLength(1);
    expect(service.asked[0]?.path).toBe("jobs/nobody's");
  });
});
