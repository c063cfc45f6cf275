/** Timelines of any size: a one-forward-one-backward schedule with offloads, carried out in order. */

import type { IdleReason, Op, Timeline, WaitsFor } from "../../src/api/types";

export interface Size {
  devices: number;
  microBatches: number;
  /** Stages of each device. */
  chunks?: number;
  hasOffloads?: boolean;
}

interface Done {
  op: Op;
  stage: number;
  microBatch: number;
  startNs: number;
  endNs: number;
  after: number | null;
  waitsFor: WaitsFor;
}

const TIMES: Record<Op, number> = {
  F: 4_201_003,
  B: 4_350_017,
  W: 3_990_501,
  O: 9_000_000,
  R: 9_000_000,
};
const GIB = 2 ** 30;
const ACTIVATION_BYTES = GIB / 8;

export function syntheticTimeline(size: Size): Timeline {
  const chunks = size.chunks ?? 1;
  const stages = Array.from({ length: size.devices * chunks }, (_, stage) => ({
    device: stage % size.devices,
  }));
  const done = carryOut(size, stages);
  const order = done.map((_, index) => index).sort((a, b) => startOf(done, a) - startOf(done, b));
  const newIndex = new Map(order.map((old, position) => [old, position]));
  const sorted = order.map((old) => done[old] as Done);
  const makespanNs = Math.max(...sorted.map((entry) => entry.endNs));
  const after = sorted.map((entry) =>
    entry.after === null ? null : (newIndex.get(entry.after) ?? null),
  );
  return {
    schedule: "Synthetic",
    placement: null,
    fits: true,
    reason: null,
    makespan_ns: makespanNs,
    steady_span_ns: null,
    lower_bound_ns: Math.round(makespanNs * 0.93),
    micro_batches: size.microBatches,
    stages,
    ops: {
      op: sorted.map((entry) => entry.op),
      stage: sorted.map((entry) => entry.stage),
      micro_batch: sorted.map((entry) => entry.microBatch),
      start_ns: sorted.map((entry) => entry.startNs),
      end_ns: sorted.map((entry) => entry.endNs),
      after,
      waits_for: sorted.map((entry) => entry.waitsFor),
    },
    critical_path: chainTo(sorted, after, makespanNs),
    devices: Array.from({ length: size.devices }, (_, device) =>
      deviceOf(device, sorted, stages, makespanNs),
    ),
    hosts: [
      {
        host: 0,
        limit_bytes: 64 * GIB,
        peak_bytes: 3 * GIB,
        memory: { at_ns: [0, 10_000_000, makespanNs - 1], bytes: [0, 3 * GIB, 0] },
      },
    ],
    links: Array.from({ length: size.devices }, (_, device) => ({
      link: `pcie ${device}`,
      devices: [device],
      offload_busy_ns: busyOf(sorted, stages, device, ["O"]),
      reload_busy_ns: busyOf(sorted, stages, device, ["R"]),
    })),
  };
}

function carryOut(size: Size, stages: { device: number }[]): Done[] {
  const done: Done[] = [];
  const indexOf = new Map<string, number>();
  const lastOf = new Map<string, number>();
  const run = (op: Op, stage: number, microBatch: number, needs: (number | undefined)[]) => {
    const device = stages[stage]?.device ?? 0;
    const resource = op === "O" || op === "R" ? `${op} ${device}` : `device ${device}`;
    const before = lastOf.get(resource);
    let startNs = before === undefined ? 0 : endOf(done, before);
    let after: number | null = before ?? null;
    let waitsFor: WaitsFor = after === null ? "start" : "device";
    for (const need of needs) {
      if (need !== undefined && endOf(done, need) > startNs) {
        startNs = endOf(done, need);
        after = need;
        waitsFor = done[need]?.op === "R" ? "link" : "dependency";
      }
    }
    const endNs = startNs + TIMES[op];
    const index = done.push({ op, stage, microBatch, startNs, endNs, after, waitsFor }) - 1;
    indexOf.set(`${op} ${stage} ${microBatch}`, index);
    lastOf.set(resource, index);
  };
  const found = (op: Op, stage: number, microBatch: number) =>
    indexOf.get(`${op} ${stage} ${microBatch}`);
  const queues = stages.map((_, stage) => queueOf(stage, stages.length, size.microBatches));
  for (let isMoving = true; isMoving; ) {
    isMoving = false;
    queues.forEach((queue, stage) => {
      const [op, microBatch] = queue[0] ?? [null, 0];
      const before =
        op === "F" ? found("F", stage - 1, microBatch) : found("B", stage + 1, microBatch);
      const isFirst = op === "F" ? stage === 0 : stage === stages.length - 1;
      if (op === null || (before === undefined && !isFirst)) {
        return;
      }
      queue.shift();
      isMoving = true;
      if (op === "F") {
        run("F", stage, microBatch, [before]);
        if (size.hasOffloads !== false) {
          run("O", stage, microBatch, [found("F", stage, microBatch)]);
        }
        return;
      }
      if (size.hasOffloads !== false) {
        run("R", stage, microBatch, [found("O", stage, microBatch)]);
      }
      run("B", stage, microBatch, [before, found("R", stage, microBatch)]);
      run("W", stage, microBatch, []);
    });
  }
  return done;
}

/** Forward operations to fill the pipeline, then a backward for each forward. */
function queueOf(stage: number, stages: number, microBatches: number): [Op, number][] {
  const ahead = Math.min(microBatches, stages - stage);
  const queue: [Op, number][] = [];
  for (let forward = 0; forward < ahead; forward += 1) {
    queue.push(["F", forward]);
  }
  for (let backward = 0; backward < microBatches; backward += 1) {
    queue.push(["B", backward]);
    if (ahead + backward < microBatches) {
      queue.push(["F", ahead + backward]);
    }
  }
  return queue;
}

function deviceOf(
  device: number,
  sorted: readonly Done[],
  stages: readonly { device: number }[],
  makespanNs: number,
): Timeline["devices"][number] {
  const own = sorted.filter(
    ({ op, stage }) => stages[stage]?.device === device && op !== "O" && op !== "R",
  );
  const idle: Timeline["devices"][number]["idle"] = [];
  let freeNs = 0;
  const add = (endNs: number, reason: IdleReason, next: number | null) => {
    if (endNs > freeNs) {
      idle.push({ start_ns: freeNs, end_ns: endNs, reason, next });
    }
  };
  for (const entry of own) {
    const reason = freeNs === 0 ? "fill" : entry.waitsFor === "link" ? "link" : "dependency";
    add(entry.startNs, reason, sorted.indexOf(entry));
    freeNs = entry.endNs;
  }
  add(makespanNs, "drain", null);
  const idleNs = { fill: 0, dependency: 0, memory: 0, link: 0, slack: 0, drain: 0 };
  for (const span of idle) {
    idleNs[span.reason] += span.end_ns - span.start_ns;
  }
  const memory = memoryOf(own);
  return {
    device,
    host_link: `pcie ${device}`,
    host: 0,
    limit_bytes: 2 * GIB,
    peak_bytes: Math.max(...memory.bytes),
    memory,
    busy_ns: busyOf(sorted, stages, device, ["F", "B", "W"]),
    idle_ns: idleNs,
    idle,
  };
}

function memoryOf(own: readonly Done[]): { at_ns: number[]; bytes: number[] } {
  const at_ns = [0];
  const bytes = [GIB / 2];
  for (const { op, startNs, endNs } of own) {
    const change = op === "F" ? ACTIVATION_BYTES : op === "B" ? -ACTIVATION_BYTES : 0;
    if (change !== 0) {
      at_ns.push(op === "F" ? startNs : endNs);
      bytes.push((bytes.at(-1) ?? 0) + change);
    }
  }
  return { at_ns, bytes };
}

function busyOf(
  sorted: readonly Done[],
  stages: readonly { device: number }[],
  device: number,
  ops: readonly Op[],
): number {
  return sorted
    .filter(({ op, stage }) => ops.includes(op) && stages[stage]?.device === device)
    .reduce((sum, { startNs, endNs }) => sum + endNs - startNs, 0);
}

function chainTo(
  sorted: readonly Done[],
  after: readonly (number | null)[],
  makespanNs: number,
): number[] {
  const chain: number[] = [];
  let at: number | null = sorted.findIndex(({ endNs }) => endNs === makespanNs);
  while (at !== null && at >= 0) {
    chain.unshift(at);
    at = after[at] ?? null;
  }
  return chain;
}

function startOf(done: readonly Done[], index: number): number {
  return done[index]?.startNs ?? 0;
}

function endOf(done: readonly Done[], index: number): number {
  return done[index]?.endNs ?? 0;
}
