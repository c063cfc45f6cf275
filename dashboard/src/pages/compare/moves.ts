/** Which operations of a schedule start at another time in a second one, and in another order. */

import type { Op } from "../../api/types";
import type { Problem, TimedOp } from "../../views/pipeline/types";

export interface Token {
  op: Op;
  stage: number;
  micro_batch: number;
}

/** An operation that starts at another time: `byNs` < 0 is earlier in the second schedule. */
export interface Move extends Token {
  device: number;
  fromNs: number;
  toNs: number;
  byNs: number;
}

export interface DeviceMoves {
  device: number;
  operations: number;
  earlier: number;
  later: number;
  same: number;
  mostEarlierNs: number;
  mostLaterNs: number;
  /** Neighbours on the device that run the other way round in the second schedule. */
  swaps: number;
}

export interface PlanMoves {
  devices: DeviceMoves[];
  /** The largest moves, by how far. */
  largest: Move[];
  swaps: Swap[];
  offloadsAdded: Token[];
  offloadsRemoved: Token[];
}

/** `first` ran right before `second` on the device; in the second schedule it runs after it. */
export interface Swap {
  device: number;
  first: Token;
  second: Token;
}

const LARGEST = 12;

/** Both schedules are of the same stages on the same devices, with as many micro-batches. */
export function planMoves(
  problem: Problem,
  a: readonly TimedOp[],
  b: readonly TimedOp[],
): PlanMoves {
  const startOf = new Map(b.map((op) => [keyOf(op), op.start_ns]));
  const deviceOf = (op: Token) => problem.stages[op.stage]?.device ?? 0;
  const moves = a.flatMap((op) => {
    const toNs = startOf.get(keyOf(op));
    return toNs === undefined ? [] : [moveOf(op, toNs, deviceOf(op))];
  });
  const swaps = swapsOf(a, b, deviceOf);
  return {
    devices: problem.devices.map((_, device) => movesOf(device, moves, swaps)),
    largest: moves
      .filter((move) => move.byNs !== 0)
      .sort((x, y) => Math.abs(y.byNs) - Math.abs(x.byNs))
      .slice(0, LARGEST),
    swaps,
    offloadsAdded: offloadsOnlyIn(b, a),
    offloadsRemoved: offloadsOnlyIn(a, b),
  };
}

export function totals(moves: PlanMoves): Omit<DeviceMoves, "device"> {
  const sum = (pick: (entry: DeviceMoves) => number) =>
    moves.devices.reduce((total, entry) => total + pick(entry), 0);
  return {
    operations: sum((entry) => entry.operations),
    earlier: sum((entry) => entry.earlier),
    later: sum((entry) => entry.later),
    same: sum((entry) => entry.same),
    mostEarlierNs: moves.devices.reduce((most, one) => Math.min(most, one.mostEarlierNs), 0),
    mostLaterNs: moves.devices.reduce((most, one) => Math.max(most, one.mostLaterNs), 0),
    swaps: moves.swaps.length,
  };
}

function moveOf(op: TimedOp, toNs: number, device: number): Move {
  const { op: kind, stage, micro_batch, start_ns: fromNs } = op;
  return { op: kind, stage, micro_batch, device, fromNs, toNs, byNs: toNs - fromNs };
}

function movesOf(device: number, moves: readonly Move[], swaps: readonly Swap[]): DeviceMoves {
  const own = moves.filter((move) => move.device === device && isCompute(move));
  return {
    device,
    operations: own.length,
    earlier: own.filter((move) => move.byNs < 0).length,
    later: own.filter((move) => move.byNs > 0).length,
    same: own.filter((move) => move.byNs === 0).length,
    mostEarlierNs: own.reduce((most, move) => Math.min(most, move.byNs), 0),
    mostLaterNs: own.reduce((most, move) => Math.max(most, move.byNs), 0),
    swaps: swaps.filter((swap) => swap.device === device).length,
  };
}

function swapsOf(
  a: readonly TimedOp[],
  b: readonly TimedOp[],
  deviceOf: (op: Token) => number,
): Swap[] {
  const rank = new Map(inOrder(b).map((op, index) => [keyOf(op), index]));
  const before = new Map<number, TimedOp>();
  const swaps: Swap[] = [];
  for (const op of inOrder(a)) {
    const own = rank.get(keyOf(op));
    if (own === undefined) {
      continue;
    }
    const device = deviceOf(op);
    const previous = before.get(device);
    if (previous && (rank.get(keyOf(previous)) ?? 0) > own) {
      swaps.push({ device, first: tokenOf(previous), second: tokenOf(op) });
    }
    before.set(device, op);
  }
  return swaps;
}

/** F, B and W by start; sorting is stable, so operations of no length keep their place. */
function inOrder(ops: readonly TimedOp[]): TimedOp[] {
  return ops.filter(isCompute).sort((x, y) => x.start_ns - y.start_ns);
}

function offloadsOnlyIn(these: readonly TimedOp[], others: readonly TimedOp[]): Token[] {
  const known = new Set(others.filter((op) => op.op === "O").map(keyOf));
  return these.filter((op) => op.op === "O" && !known.has(keyOf(op))).map(tokenOf);
}

function isCompute(op: Token): boolean {
  return op.op === "F" || op.op === "B" || op.op === "W";
}

function tokenOf(op: TimedOp): Token {
  return { op: op.op, stage: op.stage, micro_batch: op.micro_batch };
}

function keyOf(op: Token): string {
  return `${op.op} ${op.stage} ${op.micro_batch}`;
}
