import { describe, expect, it } from "vitest";
import { fieldsOf } from "../../src/pages/new/fields";
import type { JsonObject } from "../../src/pages/new/json-text";
import { placed } from "../../src/pages/new/problem-paths";
import { BODIES } from "../../src/pages/new/starters";

function fieldOf(kind: "pipeline" | "sharding" | "training", path: string, body?: JsonObject) {
  return placed([{ path, message: "" }], fieldsOf(kind, body ?? BODIES[kind]))[0]?.field;
}

describe("where a problem is shown", () => {
  it.each([
    ["training.micro_batches", "training.micro_batches"],
    ["model", "model.preset"],
    ["cluster", "cluster.gpu.preset"],
    ["cluster.gpu", "cluster.gpu.preset"],
    ["cluster.gpu.hbm_bytes_per_s", "cluster.gpu.hbm_bytes_per_s"],
    ["tags.3", "tags"],
    ["training.layers_per_stage.0", "training.layers_per_stage"],
    ["training.profile.layer", null],
    ["unheard_of", null],
    ["", null],
  ])("pipeline %s", (path, field) => {
    expect(fieldOf("pipeline", path)).toBe(field);
  });

  it("sharding", () => {
    expect(fieldOf("sharding", "alpha.1")).toBe("alpha");
    expect(fieldOf("sharding", "devices")).toBe("devices.gpu.preset");
    expect(fieldOf("sharding", "devices", { devices: 3 })).toBe("devices.count");
    expect(fieldOf("sharding", "transformer")).toBe("transformer.preset");
  });

  it("training", () => {
    expect(fieldOf("training", "search.tensor_parallel.1")).toBe("search.tensor_parallel");
    expect(fieldOf("training", "search.tensor_parallel")).toBe("search.tensor_parallel");
  });

  it("keeps what the service said", () => {
    const problem = { path: "name", message: "too long", remedy: "shorten it" };
    expect(placed([problem], fieldsOf("pipeline", {}))).toEqual([{ ...problem, field: "name" }]);
  });
});
