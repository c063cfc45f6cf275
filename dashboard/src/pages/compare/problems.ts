/** Whether two plans answer the same question, and what of them can be compared. */

import { isSteadySpan } from "../../views/pipeline/plan-facts";
import type { PipelineResult, Problem } from "../../views/pipeline/types";

export type Difference =
  | "stages"
  | "microBatches"
  | "placement"
  | "devices"
  | "work"
  | "limits"
  | "objective";

export interface Comparability {
  differences: Difference[];
  /** Whether each operation of one is an operation of the other, on the same device. */
  operations: boolean;
  /** Whether device i of one stands for device i of the other. */
  devices: boolean;
  /** Whether both do the same work, so that times can be set against each other. */
  sameWork: boolean;
}

export function comparability(a: PipelineResult, b: PipelineResult): Comparability {
  const [left, right] = [a.problem, b.problem];
  if (!left || !right) {
    return { differences: [], operations: false, devices: false, sameWork: false };
  }
  const differs: Record<Difference, boolean> = {
    stages: left.stages.length !== right.stages.length,
    microBatches: left.micro_batches !== right.micro_batches,
    placement: hasOtherPlacement(left, right),
    devices: left.devices.length !== right.devices.length,
    work: false,
    limits: isOther(left.devices.map(limitOf), right.devices.map(limitOf)),
    objective: isSteadySpan(a) !== isSteadySpan(b),
  };
  const operations = !differs.stages && !differs.microBatches && !differs.placement;
  // Another placement cuts the same layers into other stages; then only the total tells.
  const isOtherWork = operations
    ? isOther(workOf(left), workOf(right))
    : totalWork(left) !== totalWork(right);
  differs.work = isOtherWork && !differs.microBatches;
  return {
    differences: (Object.keys(differs) as Difference[]).filter((name) => differs[name]),
    operations,
    devices: !differs.devices,
    sameWork: !isOtherWork,
  };
}

/** Which device each stage is on; stages of another number are told as that. */
function hasOtherPlacement(left: Problem, right: Problem): boolean {
  const devicesOf = (problem: Problem) => problem.stages.map((stage) => stage.device);
  return left.stages.length === right.stages.length && isOther(devicesOf(left), devicesOf(right));
}

function limitOf(device: Problem["devices"][number]): number | null {
  return device.activation_memory_bytes ?? null;
}

/** Times and sizes of the stages and transfers, without names. */
function workOf(problem: Problem): unknown {
  const stages = problem.stages.map(({ name: _name, ...numbers }) => sortedEntries(numbers));
  return [stages, problem.transfers?.map((transfer) => sortedEntries(transfer as object))];
}

function sortedEntries(fields: object): unknown[] {
  return Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1));
}

/** All compute time: placements of one model share it, however its layers are cut into stages. */
function totalWork(problem: Problem): number {
  const kinds = ["forward_ns", "backward_input_ns", "backward_weight_ns"];
  return problem.stages.reduce(
    (sum, stage) =>
      sum + kinds.reduce((part, kind) => part + timesOf(stage[kind], problem.micro_batches), 0),
    0,
  );
}

/** A time of a stage is one number, or one per micro-batch. */
function timesOf(value: unknown, microBatches: number): number {
  if (Array.isArray(value)) {
    return value.reduce((sum, one) => sum + Number(one), 0);
  }
  return typeof value === "number" ? value * microBatches : 0;
}

function isOther(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) !== JSON.stringify(b);
}
