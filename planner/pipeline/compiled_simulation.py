"""The simulation of `simulation.Simulation` as compiled code, for iterations of many operations.

It starts the same operations at the same instants and in the same sequence: whoever changes one
changes both. Operations are numbered kind x stages x micro-batches + stage x micro-batches +
micro-batch, with the kinds in the order of `KINDS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from planner.compiled import compiled
from planner.pipeline.orders import Channel, Orders
from planner.pipeline.problem import MicroBatchOrder, PipelineProblem
from planner.pipeline.schedule import OpKind, TimedOp, Token

KINDS: tuple[OpKind, ...] = ("F", "B", "W", "O", "R")
CODE = {kind: code for code, kind in enumerate(KINDS)}
F, B, W, O, R = range(5)  # noqa: E741
NO_LIMIT = 2**62

IntArray = np.ndarray[Any, np.dtype[np.int64]]


class ProblemArrays(NamedTuple):
    """A problem as arrays: times (ns) and sizes (bytes) flat per stage and micro-batch.

    `duration` has five blocks, one per kind; `allocation` (at the start) and `release` (at the
    end) likewise, on the operation's device. `channel` has two rows (O, R) per stage, `host` is
    per stage (-1: none). Limits are `NO_LIMIT` where there is none.
    """

    stages: int
    micro_batches: int
    fixed_order: bool
    device: IntArray
    duration: IntArray
    allocation: IntArray
    release: IntArray
    offload_bytes: IntArray
    forward_hop: IntArray
    backward_hop: IntArray
    device_limit: IntArray
    host: IntArray
    host_limit: IntArray
    channel: IntArray
    channels: int


def problem_arrays(problem: PipelineProblem, enforce_memory: bool = True) -> ProblemArrays:
    """The arrays of a problem; without `enforce_memory` as if there were no limits."""
    stages, count = problem.stages, range(problem.micro_batches)
    zero = np.zeros(len(stages) * len(count), dtype=np.int64)

    def flat(rows: list[Any]) -> IntArray:
        return np.array(rows, dtype=np.int64).reshape(-1)

    forward, backward = (
        flat([getattr(s, name) for s in stages]) for name in ("forward_ns", "backward_input_ns")
    )
    weight = flat([s.backward_weight_ns for s in stages])
    activation = flat([s.activation_bytes for s in stages])
    late = np.where(weight > 0, flat([s.weight_grad_bytes for s in stages]), 0)
    workspace = flat([s.backward_workspace_bytes for s in stages])
    offload_bytes = flat([s.offload_bytes for s in stages])
    channels: dict[Channel, int] = {}
    rows = [
        [channels.setdefault(problem.channel(s, kind), len(channels)) for s in range(len(stages))]
        for kind in "OR"
    ]
    hosts = [problem.devices[s.device].host for s in stages]
    return ProblemArrays(
        stages=len(stages),
        micro_batches=len(count),
        fixed_order=problem.micro_batch_order is MicroBatchOrder.FIXED,
        device=flat([s.device for s in stages]),
        duration=np.concatenate(
            [
                forward,
                backward,
                weight,
                flat([s.offload_ns for s in stages]),
                flat([s.reload_ns for s in stages]),
            ]
        ),
        allocation=np.concatenate(
            [
                activation,
                np.maximum(0, late - activation) + workspace,
                zero,
                zero,
                offload_bytes,
            ]
        ),
        release=np.concatenate(
            [
                zero,
                np.maximum(0, activation - late) + workspace,
                late,
                offload_bytes,
                zero,
            ]
        ),
        offload_bytes=offload_bytes,
        forward_hop=flat([t.forward_ns for t in problem.transfers]),
        backward_hop=flat([t.backward_ns for t in problem.transfers]),
        device_limit=_limits([d.activation_memory_bytes for d in problem.devices], enforce_memory),
        host=flat([-1 if h is None else h for h in hosts]),
        host_limit=_limits([h.memory_bytes for h in problem.hosts], enforce_memory),
        channel=flat(rows),
        channels=len(channels),
    )


def _limits(limits: list[int | None], enforced: bool) -> IntArray:
    return np.array(
        [NO_LIMIT if limit is None or not enforced else limit for limit in limits], dtype=np.int64
    )


def operation_numbers(problem: PipelineProblem, tokens: Any) -> IntArray:
    """The numbers of tokens, in their sequence."""
    flat = np.array([(CODE[op], s, m) for op, s, m in tokens], dtype=np.int64).reshape(-1, 3)
    count = problem.micro_batches
    numbers: IntArray = (flat[:, 0] * len(problem.stages) + flat[:, 1]) * count + flat[:, 2]
    return numbers


def simulated_ops(
    problem: PipelineProblem, orders: Orders, enforce_memory: bool
) -> list[TimedOp] | None:
    """What `Simulation(problem, orders, enforce_memory).run()` returns; None where it raises."""
    arrays = problem_arrays(problem, enforce_memory)
    sequence = operation_numbers(problem, chain.from_iterable(orders.compute))
    first = np.cumsum([0, *map(len, orders.compute)]).astype(np.int64)
    started, starts, complete = simulate(
        arrays,
        sequence,
        first,
        _positions(problem, orders.channels),
        _positions(problem, orders.hosts),
    )
    return timed_ops(arrays, started, starts) if complete else None


def timed_ops(arrays: ProblemArrays, numbers: IntArray, starts: IntArray) -> list[TimedOp]:
    """Operations by their numbers and starts, in the same sequence."""
    block = arrays.stages * arrays.micro_batches
    kinds = [KINDS[code] for code in (numbers // block).tolist()]
    cells = numbers % block
    return list(
        map(
            TimedOp,
            kinds,
            (cells // arrays.micro_batches).tolist(),
            (cells % arrays.micro_batches).tolist(),
            starts.tolist(),
            (starts + arrays.duration[numbers]).tolist(),
        )
    )


def _positions(
    problem: PipelineProblem,
    orders: Mapping[Channel, tuple[Token, ...]] | Mapping[int, tuple[Token, ...]] | None,
) -> IntArray:
    """Per operation its place in its channel or host order; empty without orders."""
    if orders is None:
        return np.empty(0, dtype=np.int64)
    positions = np.full(5 * len(problem.stages) * problem.micro_batches, -1, dtype=np.int64)
    for tokens in orders.values():
        positions[operation_numbers(problem, tokens)] = np.arange(len(tokens))
    return positions


def simulate(
    arrays: ProblemArrays,
    sequence: IntArray,
    first: IntArray,
    channel_position: IntArray,
    host_position: IntArray,
) -> tuple[IntArray, IntArray, bool]:
    """Run the sequences (device d's are `sequence[first[d]:first[d + 1]]`).

    Positions are per operation, or empty: first come, first served. Returns operation numbers in
    the sequence of their starts, their starts (ns), and whether every sequence came to its end.
    """
    started, starts, complete = _simulate(*arrays, sequence, first, channel_position, host_position)
    return started, starts, bool(complete)


@compiled
def _simulate(
    stages: int,
    count: int,
    fixed_order: bool,
    device_of: IntArray,
    duration: IntArray,
    allocation: IntArray,
    release: IntArray,
    offload_bytes: IntArray,
    forward_hop: IntArray,
    backward_hop: IntArray,
    device_limit: IntArray,
    host_of: IntArray,
    host_limit: IntArray,
    channel_of: IntArray,
    channels: int,
    sequence: IntArray,
    first: IntArray,
    channel_position: IntArray,
    host_position: IntArray,
) -> tuple[IntArray, IntArray, bool]:
    devices = len(first) - 1
    block = stages * count
    by_position = len(channel_position) > 0
    by_host_position = len(host_position) > 0
    ended = np.zeros(5 * block, dtype=np.bool_)
    requested = np.zeros(block, dtype=np.bool_)  # reloads
    offloaded = np.zeros(block, dtype=np.bool_)
    for k in range(len(sequence)):
        if sequence[k] >= R * block:
            offloaded[sequence[k] - R * block] = True
    arrival = np.full(2 * block, -1, dtype=np.int64)
    arrival[:count] = 0
    used = np.zeros(devices, dtype=np.int64)
    host_used = np.zeros(len(host_limit), dtype=np.int64)
    host_next = np.zeros(len(host_limit), dtype=np.int64)
    channel_next = np.zeros(channels, dtype=np.int64)
    channel_free = np.zeros(channels, dtype=np.int64)
    device_free = np.zeros(devices, dtype=np.int64)
    following = first[:-1].copy()
    dirty = np.ones(devices, dtype=np.bool_)
    known = np.zeros(channels, dtype=np.bool_)
    served = np.zeros(channels, dtype=np.int64)  # channels in the order of their first request
    serving = 0
    size = len(sequence) + offloaded.sum()
    started = np.empty(size, dtype=np.int64)
    starts = np.empty(size, dtype=np.int64)
    done = 0
    serial = 0
    # Devices that wake have the numbers -1, -2, ...
    events = [(np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]
    queues = [[(np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)] for _ in range(channels)]
    waiting = 0
    now = np.int64(0)
    while True:
        # Start what can start now; a started transfer lets its device go on, and the reverse.
        while True:
            for d in range(devices):
                if not dirty[d]:
                    continue
                dirty[d] = False
                while following[d] < first[d + 1]:
                    op = sequence[following[d]]
                    kind, cell = op // block, op % block
                    s, m = cell // count, cell % count
                    if kind == R:
                        ready = ended[O * block + cell]
                    elif kind == W:
                        ready = ended[B * block + cell]
                    else:
                        ready = 0 <= arrival[op] <= now
                        if ready and kind == B:
                            before = R if offloaded[cell] else F
                            ready = ended[before * block + cell]
                    if ready and kind != R:
                        if duration[op] > 0:
                            ready = device_free[d] <= now
                        elif fixed_order and m > 0:
                            ready = ended[op - 1]
                    if not ready or used[d] + allocation[op] > device_limit[d]:
                        break
                    if kind == R:
                        if not requested[cell]:
                            requested[cell] = True
                            c = channel_of[stages + s]
                            position = channel_position[op] if by_position else now
                            serial += 1
                            heappush(queues[c], (position, np.int64(serial), op))
                            waiting += 1
                            if not known[c]:
                                known[c] = True
                                served[serving] = c
                                serving += 1
                        break
                    end = now + duration[op]
                    used[d] += allocation[op]
                    started[done] = op
                    starts[done] = now
                    done += 1
                    serial += 1
                    heappush(events, (end, np.int64(serial), op))
                    if end > now:
                        device_free[d] = end
                    if kind == F:
                        if s + 1 < stages:
                            arrival[op + count] = end + forward_hop[cell]
                            serial += 1
                            wake = np.int64(-1 - device_of[s + 1])
                            heappush(events, (arrival[op + count], np.int64(serial), wake))
                        else:
                            arrival[block + cell] = end
                    elif kind == B and s > 0:
                        arrival[op - count] = end + backward_hop[cell - count]
                        serial += 1
                        wake = np.int64(-1 - device_of[s - 1])
                        heappush(events, (arrival[op - count], np.int64(serial), wake))
                    following[d] += 1
            if waiting == 0:
                break
            again = False
            for k in range(serving):
                c = served[k]
                queue = queues[c]
                blocked = [(np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]
                while len(queue) > 0:
                    position, number, op = queue[0]
                    if by_position and position != channel_next[c]:
                        break
                    if duration[op] > 0 and channel_free[c] > now:
                        break
                    heappop(queue)
                    kind, cell = op // block, op % block
                    s = cell // count
                    h = host_of[s]
                    room = True
                    if kind == O and h >= 0:
                        if by_host_position and host_position[op] != host_next[h]:
                            room = False
                        else:
                            room = host_used[h] + offload_bytes[cell] <= host_limit[h]
                    if not room:
                        blocked.append((position, number, op))
                        if by_position:
                            break
                        continue
                    waiting -= 1
                    d = device_of[s]
                    end = now + duration[op]
                    used[d] += allocation[op]
                    started[done] = op
                    starts[done] = now
                    done += 1
                    serial += 1
                    heappush(events, (end, np.int64(serial), op))
                    channel_next[c] += 1
                    if duration[op] > 0:
                        channel_free[c] = end
                    dirty[d] = True
                    again = True
                    if kind == R:
                        following[d] += 1
                    elif h >= 0:
                        host_next[h] += 1
                        host_used[h] += offload_bytes[cell]
                for entry in blocked:
                    heappush(queue, entry)
            if not again:
                break
        if len(events) == 0:
            break
        now = events[0][0]
        while len(events) > 0 and events[0][0] == now:
            _, _, op = heappop(events)
            if op < 0:
                dirty[-1 - op] = True
                continue
            ended[op] = True
            kind, cell = op // block, op % block
            s = cell // count
            d = device_of[s]
            dirty[d] = True
            used[d] -= release[op]
            if kind == R:
                if host_of[s] >= 0:
                    host_used[host_of[s]] -= offload_bytes[cell]
            elif kind == F and offloaded[cell]:
                c = channel_of[s]
                transfer = O * block + cell
                position = channel_position[transfer] if by_position else now
                serial += 1
                heappush(queues[c], (position, np.int64(serial), transfer))
                waiting += 1
                if not known[c]:
                    known[c] = True
                    served[serving] = c
                    serving += 1
    complete = True
    for d in range(devices):
        complete = complete and following[d] == first[d + 1]
    return started[:done], starts[:done], complete
