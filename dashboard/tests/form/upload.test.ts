import { describe, expect, it } from "vitest";
import { openedAs } from "../../src/pages/new/upload";

describe("a document that is opened", () => {
  const problem = { micro_batches: 2, devices: [{}], stages: [{}] };
  const graph = { inputs: [], operators: [] };
  it.each([
    [problem, "training", "pipeline", { problem }],
    [graph, "pipeline", "sharding", { graph }],
    [{ problem }, "sharding", "pipeline", { problem }],
    [{ transformer: "BERT-Large", devices: 4 }, "pipeline", "sharding", null],
    [{ model: "GPT-2", cluster: "8xH100", search: {} }, "pipeline", "training", null],
    [{ model: "GPT-2", cluster: "8xH100" }, "training", "training", null],
    [{ model: "GPT-2", cluster: "8xH100" }, "sharding", "pipeline", null],
    [{}, "pipeline", "pipeline", null],
  ] as const)("%j", (document, shown, kind, body) => {
    expect(openedAs(document as never, shown)).toMatchObject({ kind, body: body ?? document });
  });

  it("is known by its parts", () => {
    expect(openedAs({ foo: 1 }, "sharding")).toEqual({
      kind: "sharding",
      body: { foo: 1 },
      isKnown: false,
    });
    expect(openedAs({ name: "only a name" }, "pipeline").isKnown).toBe(false);
    for (const document of [problem, graph, { model: "GPT-2" }, { alpha: 1 }]) {
      expect(openedAs(document as never, "pipeline").isKnown).toBe(true);
    }
  });
});
