import { expect, it } from "vitest";
import { jobOf } from "../../src/pages/run/schedule-panel";
import { computationRow, quantitiesOf, quantityRows } from "../../src/pages/run/stage-rows";
import { estimateOf, versionOf } from "./samples";

const drift = {
  kind: "stage_time_drift",
  before: 10_000_000,
  after: 22_000_000,
  noise: 1000,
  since: 30,
};

it("puts the computation of a stage into a row, never over several stages", () => {
  const stage = {
    stage: 2,
    quantities: {
      forward_ns: estimateOf({ value: 22_000_000, noise: 0.02, confidence: 0.7, drift }),
      backward_input_ns: estimateOf({ noise: 0.01 }),
      link_busy_share: estimateOf({ value: 0.9, planned: null, noise: 0.5, confidence: 0.1 }),
    },
  };
  expect(computationRow(stage)).toEqual({
    stage: 2,
    timesNs: [22_000_000, 10_000_000, null],
    noise: 0.02,
    confidence: 0.7,
    against: 32 / 20 - 1,
    drifted: [{ quantity: "forward_ns", before: 10_000_000, after: 22_000_000, since: 30 }],
  });
});

it("leaves out what nobody reports", () => {
  expect(computationRow({ stage: 0, quantities: {} })).toMatchObject({
    noise: null,
    confidence: null,
    against: null,
  });
  const stages = [
    { stage: 0, quantities: { forward_ns: estimateOf() } },
    { stage: 1, quantities: { forward_ns: estimateOf(), reload_ns: estimateOf() } },
  ];
  expect(quantitiesOf(stages)).toEqual(["forward_ns", "reload_ns"]);
  expect(quantityRows(stages, "reload_ns").map((row) => row.stage)).toEqual([1]);
});

it("finds the job of a plan that was published again by the version that it is a copy of", () => {
  const [given, solved] = [versionOf({ job_id: null }), versionOf({ version: 2, job_id: "two" })];
  const again = versionOf({ version: 4, copy_of: 3, job_id: null });
  const before = versionOf({ version: 3, copy_of: 2, job_id: null });
  const versions = [again, before, solved, given];
  expect(jobOf({ versions }, again)).toBe("two");
  expect(jobOf({ versions }, given)).toBeNull();
});
