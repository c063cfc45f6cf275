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
    expect(openedAs(document as never, shown)).toEqual({ kind, body: body ?? document });
  });
});
