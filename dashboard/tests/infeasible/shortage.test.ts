import { expect, it } from "vitest";
import * as en from "../../src/i18n/en";
import { ranges } from "../../src/number-runs";
import { shortageOf } from "../../src/views/infeasible/shortage";

const bytes = (value: number) => `${value} B`;

it("has a row per device and host of a pipeline schedule", () => {
  const shortage = shortageOf(
    {
      summary: "No schedule fits.",
      devices: [0, 3],
      bytes: [30, 40],
      limit_bytes: [10, 20],
      smallest_limit_bytes: [25, 35],
      hosts: [{ host: 1, limit_bytes: 5, smallest_limit_bytes: 8 }],
      micro_batches: [0, 1, 2, 5],
      placement: "interleaved_2",
      remedies: [{ remedy: "more_stages", fits: null, detail: "maybe", basis: "proportional" }],
    },
    "pipeline",
    en,
    bytes,
  );
  expect(shortage.rows).toEqual([
    { where: "Device 0", neededBytes: 30, limitBytes: 10, smallestBytes: 25 },
    { where: "Device 3", neededBytes: 40, limitBytes: 20, smallestBytes: 35 },
    { where: "Host 1", neededBytes: null, limitBytes: 5, smallestBytes: 8 },
  ]);
  expect(shortage.facts.map((fact) => fact.value)).toEqual(["interleaved_2", "0–2, 5"]);
  expect(shortage.summary).toBe(
    "Micro-batches 0–2, 5 do not fit into memory, not even one at a time with nothing else in it: on device 0 it takes at least 25 B for activations, and the limit is 10 B; on device 3 it takes at least 35 B for activations, and the limit is 20 B; host 1 has 5 B for offloaded activations and would need 8 B.",
  );
  expect(shortage.isEnglish).toBe(false);
  expect(shortage.remedies).toEqual([
    {
      change: "more stages",
      fits: null,
      detail: "maybe",
      basis: "proportional",
      isEnglish: true,
      requestChanges: null,
    },
  ]);
});

it("says of a sharding plan what every plan keeps and who takes most", () => {
  const shortage = shortageOf(
    {
      device_memory_bytes: 100,
      least_memory_bytes: 150,
      least_states_bytes: 120,
      least_activation_bytes: 30,
      culprit: "embedding",
      smallest_devices: null,
      devices_searched: 64,
      fewer_devices_ruled_out: true,
      remedies: [
        {
          remedy: "zero_stage",
          change: "ZeRO stage 3 (training.zero_stage 3)",
          request_changes: { "training.zero_stage": 3 },
          memory_bytes: 80,
          predicted_peak_bytes: 90,
          fits: true,
        },
        {
          change: "checkpointing",
          request_changes: { "training.zero_stage": 3 },
          memory_bytes: 140,
          predicted_peak_bytes: null,
          fits: false,
        },
      ],
    },
    "sharding",
    en,
    bytes,
  );
  expect(shortage.summary).toContain("150 B");
  expect(shortage.parts.map((part) => part.bytes)).toEqual([120, 30]);
  expect(shortage.facts.map((fact) => fact.value)).toEqual(["embedding", "none up to 64"]);
  expect(shortage.remedies[0]?.detail).toContain("90 B");
  expect(shortage.remedies[0]?.change).toBe("ZeRO stage");
  expect(shortage.remedies[0]?.requestChanges).toEqual({ "training.zero_stage": 3 });
  expect(shortage.remedies[1]).toMatchObject({ change: "checkpointing", fits: false });
  expect(shortage.remedies[1]?.requestChanges).toBeNull();
});

it("says of a training plan which rank is short, and of what", () => {
  const shortage = shortageOf(
    {
      summary: "Of all configurations …",
      rank: 2,
      bytes: 90,
      limit_bytes: 40,
      smallest_limit_bytes: 90,
      limited_by: "optimizer states",
      parts: [{ what: "optimizer states", bytes: 60 }],
      offload: null,
      smallest_gpus: 32,
      gpus_searched: 32,
      remedies: [{ remedy: "gpu", fits: true, detail: "fits", basis: "computed" }],
    },
    "training",
    en,
    bytes,
  );
  expect(shortage.rows[0]?.where).toBe("Rank 2");
  expect(shortage.facts.map((fact) => fact.value)).toEqual(["optimizer states", "32"]);
  expect(shortage.parts).toHaveLength(1);
});

it("puts devices with the same figures together and says what states take", () => {
  const states = {
    devices: [0, 1, 2],
    micro_batches: [],
    bytes: [12, 12, 9],
    limit_bytes: [10, 10, 10],
    smallest_limit_bytes: [14, 14, 11],
  };
  const { summary } = shortageOf(states, "pipeline", en, bytes);
  expect(summary).toMatch(/^On device 0–1 .* take 12 B, and 14 B .* there are 10 B\. On device 2 /);
});

it("keeps the service's sentence where the figures are not there", () => {
  const { summary, isEnglish } = shortageOf({ summary: "Out." }, "pipeline", en, bytes);
  expect([summary, isEnglish]).toEqual(["Out.", true]);
});

it("bears documents of which parts are absent", () => {
  for (const kind of ["pipeline", "training"]) {
    expect(shortageOf({}, kind, en, bytes).remedies).toEqual([]);
  }
});

it("writes numbers that follow each other as a range", () => {
  expect(ranges([])).toBe("");
  expect(ranges([4])).toBe("4");
  expect(ranges([0, 1, 2, 7, 9, 10])).toBe("0–2, 7, 9–10");
});
