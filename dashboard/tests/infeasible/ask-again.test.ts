import { expect, it } from "vitest";
import { changedRequest } from "../../src/views/infeasible/ask-again";

it("puts values at their paths, also in lists, and takes out what is to be left open", () => {
  const request = {
    name: "mine",
    problem: { devices: [{ activation_memory_bytes: 1 }, { activation_memory_bytes: 2 }] },
    training: { offload: false, zero_stage: 0 },
    search: { offload: [false] },
  };
  const changes = {
    "problem.devices.1.activation_memory_bytes": 7,
    "training.offload": null,
    "search.offload": null,
    "training.micro_batches": 4,
  };
  expect(changedRequest("pipeline", request, changes)).toEqual({
    kind: "pipeline",
    body: {
      name: "mine",
      problem: { devices: [{ activation_memory_bytes: 1 }, { activation_memory_bytes: 7 }] },
      training: { zero_stage: 0, micro_batches: 4 },
    },
  });
  expect(request.training.offload).toBe(false);
});

it("writes a cluster out that was given in short", () => {
  const changes = { "cluster.gpu": "H200-141GB", "cluster.gpu_memory_bytes": null };
  const draft = changedRequest("training", { model: "GPT-7B", cluster: "2x8xA100-40GB" }, changes);
  expect(draft.body.cluster).toEqual({ gpu: "H200-141GB", nodes: 2, gpus_per_node: 8 });
});
