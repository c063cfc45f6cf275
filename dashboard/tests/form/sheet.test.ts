import { describe, expect, it } from "vitest";
import type { Kind } from "../../src/api/types";
import { getAt, setAt } from "../../src/pages/new/body";
import { fieldsOf } from "../../src/pages/new/fields";
import { furtherFields } from "../../src/pages/new/further";
import type { JsonObject } from "../../src/pages/new/json-text";
import {
  jsonFault,
  jsonOf,
  type Sheet,
  sheetOf,
  textOf,
  unread,
  withCountedDevices,
  withJson,
  withSource,
  withText,
} from "../../src/pages/new/sheet";
import { BODIES } from "../../src/pages/new/starters";

function fieldAt(kind: Kind, body: JsonObject, path: string) {
  const field = fieldsOf(kind, body).find((entry) => entry.path === path);
  if (!field) {
    throw new Error(`no field ${path}`);
  }
  return field;
}

function type(kind: Kind, sheet: Sheet, path: string, text: string): Sheet {
  return withText(sheet, fieldAt(kind, sheet.body, path), text);
}

describe("a body by path", () => {
  it("reads short forms", () => {
    const body: JsonObject = { model: "GPT-2", cluster: "4x8xH100", devices: 6 };
    expect(getAt(body, "model.preset")).toBe("GPT-2");
    expect(getAt(body, "cluster.nodes")).toBe(4);
    expect(getAt(body, "cluster.gpus_per_node")).toBe(8);
    expect(getAt(body, "cluster.gpu.preset")).toBe("H100");
    expect(getAt(body, "devices.count")).toBe(6);
    expect(getAt({ cluster: "8xA100-40GB" }, "cluster.nodes")).toBeUndefined();
    expect(getAt({ cluster: "8 times" }, "cluster.gpu.preset")).toBeUndefined();
    expect(getAt(body, "training.precision")).toBeUndefined();
    expect(getAt({}, "constructor.name")).toBeUndefined();
  });

  it("writes them out where they no longer do, and short where they do again", () => {
    const changed = setAt({ model: "GPT-2", name: "a" }, "model.layers", 4);
    expect(changed).toEqual({ model: { preset: "GPT-2", layers: 4 }, name: "a" });
    expect(setAt(changed, "model.layers", undefined)).toEqual({ model: "GPT-2", name: "a" });
    expect(setAt({ cluster: "2x8xH100" }, "cluster.gpu.memory_bytes", 9)).toEqual({
      cluster: { gpu: { preset: "H100", memory_bytes: 9 }, nodes: 2, gpus_per_node: 8 },
    });
  });

  it("leaves no empty parts, and the old body as it was", () => {
    const body: JsonObject = { model: "GPT-2", training: { precision: "fp16" } };
    expect(setAt(body, "training.precision", undefined)).toEqual({ model: "GPT-2" });
    expect(body).toEqual({ model: "GPT-2", training: { precision: "fp16" } });
    expect(setAt(body, "solver.seed", undefined)).toEqual(body);
  });
});

describe("the form and its JSON", () => {
  it("puts what is typed into the body, and takes what is emptied out of it", () => {
    const typed = type("pipeline", sheetOf(BODIES.pipeline), "training.micro_batches", "64");
    expect(getAt(typed.body, "training.micro_batches")).toBe(64);
    const emptied = type("pipeline", typed, "training.micro_batches", "");
    expect(getAt(emptied.body, "training.micro_batches")).toBeUndefined();
  });

  it("keeps what is no value, and says so", () => {
    const sheet = type("pipeline", sheetOf(BODIES.pipeline), "training.micro_batches", "many");
    const fields = fieldsOf("pipeline", sheet.body);
    expect(textOf(sheet, fieldAt("pipeline", sheet.body, "training.micro_batches"))).toBe("many");
    expect([...unread(sheet, fields)]).toEqual([["training.micro_batches", "whole"]]);
    expect(getAt(sheet.body, "training.micro_batches")).toBeUndefined();
  });

  it("keeps a size as it was typed", () => {
    const sheet = type("pipeline", sheetOf(BODIES.pipeline), "cluster.gpu_memory_bytes", "0.5 TiB");
    expect(getAt(sheet.body, "cluster.gpu_memory_bytes")).toBe(2 ** 39);
    expect(textOf(sheet, fieldAt("pipeline", sheet.body, "cluster.gpu_memory_bytes"))).toBe(
      "0.5 TiB",
    );
  });

  it("follows the JSON, whose text stays as it is until a field is changed", () => {
    const text = '{"model":"GPT-2",  "cluster": "8xH100", "training": {"micro_batches": 4}}';
    const sheet = withJson(sheetOf(BODIES.pipeline), "pipeline", text);
    expect(jsonOf(sheet)).toBe(text);
    expect(textOf(sheet, fieldAt("pipeline", sheet.body, "cluster.gpu.preset"))).toBe("H100");
    const changed = type("pipeline", sheet, "training.micro_batches", "5");
    expect(JSON.parse(jsonOf(changed)).training).toEqual({ micro_batches: 5 });
    expect(jsonOf(changed)).toContain("\n");
  });

  it("never loses wrong JSON, nor the body from before", () => {
    const sheet = withJson(sheetOf(BODIES.pipeline), "pipeline", '{"model": ');
    expect(jsonOf(sheet)).toBe('{"model": ');
    expect(sheet.body).toEqual(BODIES.pipeline);
    expect(jsonFault(sheet)?.line).toBe(1);
    expect(jsonFault(sheetOf(BODIES.pipeline))).toBeNull();
  });

  it("wraps a bare problem or graph", () => {
    const problem = '{"micro_batches": 1, "devices": [{}], "stages": []}';
    expect(Object.keys(withJson(sheetOf({}), "pipeline", problem).body)).toEqual(["problem"]);
    const graph = '{"inputs": [], "operators": []}';
    expect(Object.keys(withJson(sheetOf({}), "sharding", graph).body)).toEqual(["graph"]);
  });

  it("keeps one source aside for the other", () => {
    const start = sheetOf({ ...BODIES.pipeline, name: "kept" });
    const measured = withSource(start, "pipeline", "problem");
    expect(Object.keys(measured.body).sort()).toEqual(["name", "problem"]);
    expect(withSource(measured, "pipeline", "model").body).toEqual(start.body);
    const graph = withSource(sheetOf(BODIES.sharding), "sharding", "graph");
    expect(Object.keys(graph.body).sort()).toEqual(["devices", "graph"]);
    expect(withSource(graph, "sharding", "transformer").body).toEqual(BODIES.sharding);
  });

  it("counts the devices of a cluster", () => {
    const counted = withCountedDevices(sheetOf({ devices: "4x8xH100" }), true);
    expect(counted.body.devices).toEqual({ count: 32 });
    expect(getAt(withCountedDevices(counted, false).body, "devices.gpus_per_node")).toBe(32);
  });
});

describe("what no field shows", () => {
  it("is listed and kept", () => {
    const body: JsonObject = {
      model: { preset: "GPT-2", unheard_of: 1 },
      cluster: { gpu: "H100", gpus_per_node: 8, pcie_switches: [[0, 1]] },
      training: { micro_batches: "8", profile: { transfer_ns: 5 } },
      webhook: { url: "https://example.org" },
    };
    const further = furtherFields(body, fieldsOf("pipeline", body));
    expect(further.map((entry) => entry.path)).toEqual([
      "model.unheard_of",
      "cluster.pcie_switches",
      "training.micro_batches",
      "training.profile",
      "webhook",
    ]);
    const changed = type("pipeline", sheetOf(body), "name", "x");
    expect(changed.body).toEqual({ ...body, name: "x" });
  });

  it.each(["pipeline", "sharding", "training"] as const)("there is none of a fresh %s", (kind) => {
    expect(furtherFields(BODIES[kind], fieldsOf(kind, BODIES[kind]))).toEqual([]);
  });

  it("a cluster's text that is none", () => {
    const body: JsonObject = { model: "GPT-2", cluster: "eight" };
    expect(furtherFields(body, fieldsOf("pipeline", body))).toEqual([
      { path: "cluster", value: "eight" },
    ]);
  });
});

describe("fields", () => {
  it.each(["pipeline", "sharding", "training"] as const)("of a %s are each there once", (kind) => {
    const paths = fieldsOf(kind, BODIES[kind]).map((field) => field.path);
    expect(new Set(paths).size).toBe(paths.length);
    const own = fieldsOf(kind, {}).map((field) => field.path);
    expect(new Set(own)).toEqual(new Set(paths));
  });
});
