import { describe, expect, it } from "vitest";
import {
  edgeRows,
  operatorRows,
  type Planned,
  partsOf,
  strategiesOf,
  strategyRows,
} from "../../src/views/sharding/model";

/** Three operators; the last one leads back to the first, which is that of the next layer. */
const PART: Planned = {
  instance: {
    alpha: 0.5,
    device_memory_bytes: 1000,
    operators: [
      {
        name: "a",
        strategies: [
          { name: "d2-r1-c1", redundant_bytes: 10, communication_bytes: 0, memory_bytes: 5 },
          { name: "d1-r1-c2", redundant_bytes: 0, communication_bytes: 8, memory_bytes: 4 },
        ],
      },
      {
        name: "b",
        strategies: [
          { name: "d1-r2-c1-sp", redundant_bytes: 1, communication_bytes: 2, memory_bytes: 3 },
        ],
      },
      {
        name: "c",
        strategies: [
          { name: "d1-r1-c2", redundant_bytes: 4, communication_bytes: 0, memory_bytes: 9 },
        ],
      },
    ],
    edges: [
      { from: 0, to: 1, resharding_bytes: [[0], [100]] },
      { from: 1, to: 2, resharding_bytes: [[40]] },
      { from: 2, to: 0, resharding_bytes: [[7, 3]] },
    ],
  },
  plan: {
    choice: [1, 0, 0],
    objective: 80,
    memory_bytes: 16,
    status: "optimal",
    lower_bound: 80,
    operators: [
      { name: "a", kind: "linear", strategy: "d1-r1-c2", layers: 32 },
      { name: "b", kind: "gelu", strategy: "d1-r2-c1-sp", layers: 32 },
      { name: "c", kind: "add", strategy: "d1-r1-c2", layers: 32 },
    ],
    resharding: [{ from: "a", to: "b", tensor: "h", bytes: 100, counted_as: "resharding" }],
  },
  explanations: [
    {
      operator: "a",
      strategy: "d2-r1-c1",
      possible: true,
      reason: "the best plan with it costs more",
    },
  ],
};

describe("partsOf", () => {
  it("has one part of a plan without stages and one per stage with them", () => {
    expect(partsOf(PART)).toHaveLength(1);
    expect(partsOf({ stages: [PART, PART] })).toHaveLength(2);
  });

  it("leaves out what holds no plan", () => {
    expect(partsOf({})).toEqual([]);
    expect(partsOf({ stages: [PART, { instance: PART.instance }] })).toHaveLength(1);
  });
});

describe("operatorRows", () => {
  it("takes the figures of the chosen strategy and the resharding of what arrives", () => {
    const [first, second] = operatorRows(PART);
    expect(first).toMatchObject({
      name: "a",
      kind: "linear",
      layers: 32,
      strategy: "d1-r1-c2",
      communicationBytes: 8,
      memoryBytes: 4,
      reshardingBytes: 3,
    });
    expect(second).toMatchObject({ reshardingBytes: 100 });
    expect(second?.split).toMatchObject({ row: 2, isSequenceSplit: true });
  });

  it("does without the plan's own list of operators", () => {
    const { operators: _, ...plan } = PART.plan;
    const [first] = operatorRows({ ...PART, plan });
    expect(first).toMatchObject({ strategy: "d1-r1-c2", kind: null, layers: 1 });
  });
});

describe("edgeRows", () => {
  it("has the bytes of the plan's choice, the tensors, and what leads to the next layer", () => {
    const edges = edgeRows(PART);
    expect(edges.map((edge) => edge.bytes)).toEqual([100, 40, 3]);
    expect(edges.map((edge) => edge.isToNextLayer)).toEqual([false, false, true]);
    expect(edges[0]?.tensors).toEqual(["h"]);
  });
});

describe("strategyRows", () => {
  it("says by how much the objective grows if only this operator is split otherwise", () => {
    const rows = strategyRows(PART, 0);
    expect(rows.map((row) => row.isChosen)).toEqual([false, true]);
    // 10 + 0.5 * (0 + 0 + 7) against 0 + 0.5 * (8 + 100 + 3).
    expect(rows[0]?.objectiveDifference).toBe(13.5 - 55.5);
    expect(rows[1]?.objectiveDifference).toBe(0);
  });

  it("carries the explanation of the strategy that was asked about", () => {
    const rows = strategyRows(PART, 0);
    expect(rows[0]?.explanation?.reason).toBe("the best plan with it costs more");
    expect(rows[1]?.explanation).toBeNull();
  });
});

describe("strategiesOf", () => {
  it("names a choice", () => {
    expect(strategiesOf(PART.instance, [0, 0, 0])).toEqual(["d2-r1-c1", "d1-r2-c1-sp", "d1-r1-c2"]);
  });
});
