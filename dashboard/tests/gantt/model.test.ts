import { describe, expect, it } from "vitest";
import { buildModel } from "../../src/charts/gantt/model";
import {
  acrossRows,
  besides,
  bytesAt,
  countUntil,
  idleAt,
  operationAt,
} from "../../src/charts/gantt/search";
import { syntheticTimeline } from "./synthetic";

const timeline = syntheticTimeline({ devices: 2, microBatches: 3, chunks: 2 });
const model = buildModel(timeline);
const all = () => true;

describe("rows", () => {
  it("has a row per device, and one per direction of each used link below it", () => {
    const rows = model.rows.map(({ kind, device }) => `${kind} ${device}`);
    expect(rows).toEqual([
      "device 0",
      "offload 0",
      "reload 0",
      "device 1",
      "offload 1",
      "reload 1",
    ]);
  });

  it("has no row for a link that nothing uses", () => {
    const without = syntheticTimeline({ devices: 2, microBatches: 3, hasOffloads: false });
    expect(buildModel(without).rows.map(({ kind }) => kind)).toEqual(["device", "device"]);
  });

  it("puts what devices share a link for into one pair of rows below the last of them", () => {
    const shared = structuredClone(timeline);
    for (const device of shared.devices) {
      device.host_link = "switch";
    }
    const rows = buildModel(shared).rows;
    expect(rows.map(({ kind }) => kind)).toEqual(["device", "device", "offload", "reload"]);
    expect(rows[2]?.devices).toEqual([0, 1]);
  });

  it("holds each operation once, in order of time", () => {
    expect(model.rowOf.every((row) => row >= 0)).toBe(true);
    const count = model.rows.reduce((sum, row) => sum + row.ops.length, 0);
    expect(count).toBe(timeline.ops.op.length);
    for (const { startNs, endNs } of model.rows) {
      for (let at = 1; at < startNs.length; at += 1) {
        expect(startNs[at]).toBeGreaterThanOrEqual(endNs[at - 1] ?? 0);
      }
    }
  });

  it("numbers the stages of a device", () => {
    expect([...model.chunkOf]).toEqual([0, 0, 1, 1]);
    expect(model.chunks).toBe(2);
  });

  it("knows who waited for an operation", () => {
    const waiting = timeline.ops.after.findIndex((before) => before !== null);
    const before = timeline.ops.after[waiting] ?? -1;
    expect(model.successors[before]).toContain(waiting);
  });
});

describe("search", () => {
  const row = {
    kind: "device" as const,
    device: 0,
    link: null,
    devices: [0],
    ops: Int32Array.from([7, 8]),
    startNs: Float64Array.from([0, 100]),
    endNs: Float64Array.from([50, 200]),
    idle: [{ start_ns: 50, end_ns: 100, reason: "memory" as const, next: 8 }],
  };

  it("finds the operation that runs, and none between two", () => {
    expect(operationAt(row, 0, 0)).toBe(7);
    expect(operationAt(row, 49, 0)).toBe(7);
    expect(operationAt(row, 50, 0)).toBeNull();
    expect(operationAt(row, 100, 0)).toBe(8);
    expect(operationAt(row, 200, 0)).toBeNull();
  });

  it("takes the nearer of short operations within the tolerance, and no long one", () => {
    const short = {
      ...row,
      endNs: Float64Array.from([1, 102]),
      startNs: Float64Array.from([0, 100]),
    };
    expect(operationAt(short, 5, 10)).toBe(7);
    expect(operationAt(short, 95, 10)).toBe(8);
    expect(operationAt(short, 104, 10)).toBe(8);
    expect(operationAt(short, 75, 10)).toBeNull();
    expect(operationAt(row, 55, 10)).toBeNull();
  });

  it("finds idle time", () => {
    expect(idleAt(row, 49)).toBeNull();
    expect(idleAt(row, 50)?.reason).toBe("memory");
    expect(idleAt(row, 100)).toBeNull();
  });

  it("holds bytes from a step on", () => {
    const steps = { at_ns: [0, 10, 20], bytes: [1, 5, 2] };
    expect([0, 9, 10, 19, 20, 99].map((at) => bytesAt(steps, at))).toEqual([1, 1, 5, 5, 2, 2]);
  });

  it("counts what is at or before a value", () => {
    expect([0, 1, 2, 3, 9].map((value) => countUntil([1, 2, 2, 3], value))).toEqual([
      0, 1, 3, 4, 4,
    ]);
  });

  it("goes along a row and across rows, past what is hidden", () => {
    const first = model.rows[0]?.ops[0] ?? -1;
    const second = model.rows[0]?.ops[1] ?? -1;
    expect(besides(model, first, 1, all)).toBe(second);
    expect(besides(model, first, -1, all)).toBe(first);
    expect(model.rowOf[acrossRows(model, first, 1, all)]).toBe(1);
    const isComputed = (op: number) => "FBW".includes(timeline.ops.op[op] ?? "");
    expect(model.rowOf[acrossRows(model, first, 1, isComputed)]).toBe(3);
    const isBackward = (op: number) => timeline.ops.op[op] === "B";
    expect(timeline.ops.op[besides(model, first, 1, isBackward)]).toBe("B");
  });
});

describe("an epilogue", () => {
  it("is a span of its own after the device's last operation", () => {
    const timeline = syntheticTimeline({ devices: 2, microBatches: 4 });
    const [device] = timeline.devices;
    if (!device) {
      throw new Error("no device");
    }
    const last = Math.max(
      ...timeline.ops.end_ns.filter(
        (_, op) =>
          timeline.stages[timeline.ops.stage[op] ?? 0]?.device === 0 &&
          ["F", "B", "W"].includes(timeline.ops.op[op] ?? ""),
      ),
    );
    device.epilogue_ns = 5;
    const row = buildModel(timeline).rows.find((one) => one.kind === "device" && one.device === 0);
    const spans = row?.idle.filter((span) => span.reason === "epilogue");
    expect(spans).toEqual([{ start_ns: last, end_ns: last + 5, reason: "epilogue", next: null }]);
  });
});
