import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Check, QUIET_MS, type Question, Validator } from "../../src/pages/new/validator";

interface Sent {
  body: string;
  signal: AbortSignal;
  answer: (preview: string) => void;
  fail: (error: unknown) => void;
}

function setUp(retryAfterMs: number | null = null) {
  const sent: Sent[] = [];
  const told: Check<string>[] = [];
  let inFlight = 0;
  let mostInFlight = 0;
  const validator = new Validator<string>({
    ask: (question: Question, signal) => {
      inFlight += 1;
      mostInFlight = Math.max(mostInFlight, inFlight);
      return new Promise<string>((resolve, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
        sent.push({ body: question.body, signal, answer: resolve, fail: reject });
      }).finally(() => {
        inFlight -= 1;
      });
    },
    tell: (check) => told.push(check),
    retryAfterMs: () => retryAfterMs,
  });
  const type = (body: string) => validator.change({ address: "x", body });
  return { validator, sent, told, type, mostInFlight: () => mostInFlight };
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("validation as one types", () => {
  it("asks once it is quiet, about the last state only", async () => {
    const { sent, told, type } = setUp();
    type("a");
    await pass(QUIET_MS - 1);
    type("b");
    await pass(QUIET_MS - 1);
    expect(sent).toEqual([]);
    await pass(1);
    expect(sent.map((entry) => entry.body)).toEqual(["b"]);
    sent[0]?.answer("fine");
    await pass(0);
    expect(told.at(-1)).toEqual({ state: "accepted", preview: "fine" });
  });

  it("gives up an outdated question, tells nothing of it, and has one in flight at most", async () => {
    const { sent, told, type, mostInFlight } = setUp();
    for (const body of ["a", "b", "c", "d"]) {
      type(body);
      await pass(QUIET_MS);
    }
    await pass(2 * QUIET_MS);
    expect(mostInFlight()).toBe(1);
    expect(sent.slice(0, -1).every((entry) => entry.signal.aborted)).toBe(true);
    expect(sent.at(-1)?.body).toBe("d");
    expect(told.every((check) => check.state === "checking")).toBe(true);
    sent.at(-1)?.answer("d is fine");
    await pass(0);
    expect(told.at(-1)).toEqual({ state: "accepted", preview: "d is fine" });
  });

  it("tells of a failure, and asks again where that may help", async () => {
    const once = setUp();
    once.type("a");
    await pass(QUIET_MS);
    once.sent[0]?.fail("wrong");
    await pass(60_000);
    expect(once.told.at(-1)).toEqual({ state: "failed", error: "wrong" });
    expect(once.sent).toHaveLength(1);

    const again = setUp(5000);
    again.type("a");
    await pass(QUIET_MS);
    again.sent[0]?.fail("away");
    await pass(4999);
    expect(again.sent).toHaveLength(1);
    await pass(1);
    expect(again.sent.map((entry) => entry.body)).toEqual(["a", "a"]);
  });

  it("ends with its page", async () => {
    const { validator, sent, told, type } = setUp();
    type("a");
    await pass(QUIET_MS);
    validator.end();
    expect(sent[0]?.signal.aborted).toBe(true);
    const before = told.length;
    await pass(60_000);
    expect(told).toHaveLength(before);
    expect(sent).toHaveLength(1);
  });
});
