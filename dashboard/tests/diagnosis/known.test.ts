import { describe, expect, it } from "vitest";
import { withDocument } from "../../src/pages/diagnose/known";
import { DiagnoseStore } from "../../src/pages/diagnose/store";

const iteration = { iteration: 7, stages: [{ stage: 0, forward_ns: 5 }] };

describe("what is known", () => {
  it("takes telemetry in each of its forms and adds it to what there is", () => {
    const one = withDocument({}, iteration);
    expect(one?.body).toEqual({ telemetry: [iteration] });
    const more = withDocument(one?.body ?? {}, { iterations: [{ ...iteration, iteration: 8 }] });
    expect(more?.body.telemetry).toHaveLength(2);
    expect(withDocument({}, [iteration, iteration])?.body.telemetry).toHaveLength(2);
  });

  it("takes a bare problem, and of a result what a diagnosis takes", () => {
    const problem = { stages: [], devices: [], micro_batches: 2 };
    expect(withDocument({ symptoms: [] }, problem)?.body).toEqual({ symptoms: [], problem });
    const result = { problem, schedule: { ops: [1], waits: [2] }, certificate: {}, provenance: {} };
    expect(withDocument({}, result)).toEqual({
      body: { problem, schedule: { ops: [1] } },
      leftOut: ["certificate", "provenance"],
    });
  });

  it("refuses what says nothing", () => {
    expect(withDocument({}, { hello: 1 })).toBeNull();
    expect(withDocument({}, [])).toBeNull();
    expect(withDocument({}, "text")).toBeNull();
  });
});

describe("the form", () => {
  it("takes symptoms of a document as ticks, and says what it cannot use", () => {
    const store = new DiagnoseStore();
    store.add(JSON.stringify({ symptoms: ["jitter"], solve: { spent_s: 3 }, name: "x" }), "a.json");
    expect([...store.symptoms.value]).toEqual(["jitter"]);
    expect(store.body.value).toEqual({ solve: { spent_s: 3 } });
    store.add("{", "b.json");
    store.add("{}", "c.json");
    expect(store.notices.value).toEqual([
      { kind: "leftOut", names: ["name"] },
      { kind: "unreadable", file: "b.json" },
      { kind: "notKnown", file: "c.json" },
    ]);
  });

  it("reads pasted telemetry, and says where a text is no JSON", () => {
    const store = new DiagnoseStore();
    store.type(JSON.stringify([iteration]));
    expect(store.body.value).toEqual({ telemetry: [iteration] });
    store.type('{"problem": ');
    expect(store.fault.value).not.toBeNull();
    expect(store.body.value).toEqual({ telemetry: [iteration] });
    store.clear();
    expect(store.body.value).toEqual({});
  });
});
