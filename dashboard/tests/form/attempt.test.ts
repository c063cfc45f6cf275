import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Attempts } from "../../src/pages/new/attempt";

const answers: (() => Promise<Response>)[] = [];
const keys: (string | null)[] = [];
const caches: (string | null)[] = [];
const modes: (string | undefined)[] = [];

function made(): Promise<Response> {
  return Promise.resolve(new Response('{"id": "1", "cache": "miss"}', { status: 202 }));
}

function problem(status: number): Promise<Response> {
  return Promise.resolve(new Response("{}", { status }));
}

beforeEach(() => {
  vi.stubGlobal("document", { baseURI: "http://service/dashboard/" });
  vi.stubGlobal("fetch", (_: string, init: RequestInit) => {
    const headers = new Headers(init.headers);
    keys.push(headers.get("Idempotency-Key"));
    caches.push(headers.get("Cache-Control"));
    modes.push(init.cache);
    return answers.shift()?.();
  });
});

afterEach(() => {
  vi.unstubAllGlobals();
  for (const list of [answers, keys, caches, modes]) {
    list.length = 0;
  }
});

async function post(attempts: Attempts, body: string, fresh = false): Promise<unknown> {
  return attempts.post("pipeline", body, fresh).catch((error) => error);
}

function counting(): Attempts {
  let count = 0;
  return new Attempts(() => {
    count += 1;
    return `key ${count}`;
  });
}

describe("posting a request", () => {
  it("has a key of its own each time", async () => {
    answers.push(made, made);
    const attempts = counting();
    await post(attempts, "{}");
    await post(attempts, "{}");
    expect(keys).toEqual(["key 1", "key 2"]);
  });

  it("keeps the key while it is not known whether the job was made", async () => {
    answers.push(
      () => Promise.reject(new TypeError("cut off")),
      () => problem(503),
      made,
      made,
    );
    const attempts = counting();
    for (let count = 0; count < 4; count += 1) {
      await post(attempts, "{}");
    }
    expect(keys).toEqual(["key 1", "key 1", "key 1", "key 2"]);
  });

  it("has another key for another request, and after a refusal", async () => {
    answers.push(
      () => problem(503),
      () => problem(422),
      () => problem(503),
      made,
    );
    const attempts = counting();
    await post(attempts, "{}");
    await post(attempts, '{"name": "b"}');
    await post(attempts, '{"name": "b"}');
    await post(attempts, '{"name": "b"}', true);
    expect(keys).toEqual(["key 1", "key 2", "key 3", "key 4"]);
  });

  it("solves afresh only where that is asked for", async () => {
    answers.push(made, made);
    const attempts = new Attempts();
    await post(attempts, "{}");
    await post(attempts, "{}", true);
    expect(caches).toEqual([null, "no-cache"]);
    // With `no-store` a browser would add `Cache-Control: no-cache` by itself.
    expect(modes).toEqual([undefined, undefined]);
    expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
  });
});
