"""A pipeline problem as flat arrays, for compiled code.

An operation is a whole number: `(kind x stages + stage) x micro-batches + micro-batch`, with the
kinds F, B, W, R, O in this order. Arrays indexed by operation have 5 x stages x micro-batches
entries; operations that the problem does not have (W of a fused backward) are never looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from planner.pipeline.problem import MicroBatchOrder, Objective, PipelineProblem, Stage
from planner.pipeline.schedule import OpKind, TimedOp, Token

Integers = npt.NDArray[np.int64]

KINDS: tuple[OpKind, ...] = ("F", "B", "W", "R", "O")
FORWARD, BACKWARD, WEIGHT, RELOAD, OFFLOAD = range(5)
UNLIMITED = 2**62


DURATION, PREDECESSOR, SUCCESSOR, LAG, DEVICE, KIND, CELL, ALLOCATED, FREED, CHANNEL, STAGE = range(
    11
)
"""Columns of `Tables.ops`: see there."""
LIMIT, EPILOGUE, HOST = range(3)
"""Columns of `Tables.devices`."""


class Tables(NamedTuple):
    """The problem's numbers, in few arrays, since compiled calls pay for each.

    `ops[op]`: duration; the operation on the neighbouring stage whose output an F or B needs (or
    -1) and the one that needs this one's; the latency after the former; device; kind; cell
    (stage x micro-batches + micro-batch); bytes allocated at the start and freed at the end;
    channel of an R or O; stage. `devices[d]`: limit, epilogue, host (-1 where it has no limit).
    `private[c]`: only one device sends through the channel, in one direction, to a host without
    limit. `can_offload[cell]`, `host_limit[h]` in bytes.
    """

    stages: int
    micro_batches: int
    channels: int
    fixed_order: int
    steady: int
    ops: Integers
    devices: Integers
    private: Integers
    can_offload: Integers
    host_limit: Integers


def tables_of(problem: PipelineProblem) -> Tables:
    """The arrays of a problem."""
    stages, count = problem.stages, problem.micro_batches
    size = len(stages) * count
    ops = np.zeros((5 * size, 11), dtype=np.int64)
    for column, values in _columns(problem):
        ops[:, column] = [value for row in values for value in row]
    ops[:, (PREDECESSOR, SUCCESSOR, LAG)] = _neighbours(problem)
    ops[:, DEVICE] = np.tile(np.repeat([stage.device for stage in stages], count), 5)
    ops[:, KIND] = np.repeat(np.arange(5), size)
    ops[:, STAGE] = np.tile(np.repeat(np.arange(len(stages)), count), 5)
    ops[:, CELL] = np.tile(np.arange(size), 5)
    numbers = dict.fromkeys(problem.channel(s, op) for s in range(len(stages)) for op in "RO")
    channels = {channel: c for c, channel in enumerate(numbers)}
    limited = {h for h, host in enumerate(problem.hosts) if host.memory_bytes is not None}
    users: list[set[tuple[int, int]]] = [set() for _ in channels]
    for s, stage in enumerate(stages):
        for kind in (RELOAD, OFFLOAD):
            c = channels[problem.channel(s, KINDS[kind])]
            ops[(kind * len(stages) + s) * count :][:count, CHANNEL] = c
            if any(stage.offload_bytes):
                users[c].add((stage.device, kind))
    return Tables(
        stages=len(stages),
        micro_batches=count,
        channels=len(channels),
        fixed_order=int(problem.micro_batch_order is MicroBatchOrder.FIXED),
        steady=int(problem.objective is Objective.STEADY_SPAN),
        ops=ops,
        devices=np.array(
            [
                (
                    _limit(device.activation_memory_bytes),
                    device.epilogue_ns,
                    device.host if device.host in limited else -1,
                )
                for device in problem.devices
            ],
            dtype=np.int64,
        ),
        private=np.array(
            [
                len(own) == 1 and all(problem.devices[d].host not in limited for d, _ in own)
                for own in users
            ],
            dtype=np.int64,
        ),
        can_offload=np.array([v for s in stages for v in s.offload_bytes], dtype=np.int64),
        host_limit=np.array([_limit(host.memory_bytes) for host in problem.hosts], dtype=np.int64),
    )


def operation(tables: Tables, token: Token) -> int:
    """The number of a token's operation."""
    kind = KINDS.index(token.op)
    return (kind * tables.stages + token.stage) * tables.micro_batches + token.micro_batch


def sequences_of(tables: Tables, compute: Sequence[Iterable[Token]]) -> tuple[Integers, Integers]:
    """Per device the numbers of its F, B, W and R tokens, and how many they are.

    The rows are long enough for every offload that the device could make.
    """
    size = tables.stages * tables.micro_batches
    room = np.bincount(tables.ops[: 4 * size, DEVICE], minlength=len(tables.devices))
    rows = np.zeros((len(tables.devices), int(room.max())), dtype=np.int64)
    lengths = np.zeros(len(tables.devices), dtype=np.int64)
    for d, tokens in enumerate(compute):
        numbers = [operation(tables, token) for token in tokens]
        rows[d, : len(numbers)] = numbers
        lengths[d] = len(numbers)
    return rows, lengths


def timed_ops(tables: Tables, rows: Integers, lengths: Integers, end_ns: Integers) -> list[TimedOp]:
    """The operations of the rows, and an O for each R, with their ends as timed."""
    ops = []
    size = tables.stages * tables.micro_batches
    for d in range(len(tables.devices)):
        for number in rows[d, : lengths[d]].tolist():
            ops.append(_timed(tables, number, end_ns))
            if tables.ops[number, KIND] == RELOAD:
                ops.append(_timed(tables, number + size, end_ns))
    return ops


def _timed(tables: Tables, number: int, end_ns: Integers) -> TimedOp:
    kind, cell = int(tables.ops[number, KIND]), int(tables.ops[number, CELL])
    stage, micro_batch = divmod(cell, tables.micro_batches)
    end = int(end_ns[number])
    return TimedOp(KINDS[kind], stage, micro_batch, end - int(tables.ops[number, DURATION]), end)


def _limit(value: int | None) -> int:
    return UNLIMITED if value is None else value


def _columns(problem: PipelineProblem) -> Iterator[tuple[int, list[list[int]]]]:
    """Durations and memory changes: a column, and its values of F, B, W, R and O by cell."""
    stages, cells = problem.stages, range(problem.micro_batches)

    def values(each: Callable[[Stage, int], int]) -> list[int]:
        return [each(stage, m) for stage in stages for m in cells]

    nothing = [0] * (len(stages) * problem.micro_batches)
    offload = values(lambda s, m: s.offload_bytes[m])
    durations = [
        values(lambda s, m: s.forward_ns[m]),
        values(lambda s, m: s.backward_input_ns[m]),
        values(lambda s, m: s.backward_weight_ns[m]),
        values(lambda s, m: s.reload_ns[m]),
        values(lambda s, m: s.offload_ns[m]),
    ]
    yield DURATION, durations
    activation = values(lambda s, m: s.activation_bytes[m])
    backward = values(lambda s, m: s.backward_allocation_bytes(m))
    yield ALLOCATED, [activation, backward, nothing, offload, nothing]
    early = values(lambda s, m: s.backward_free_bytes(m))
    late = values(lambda s, m: s.late_bytes(m))
    yield FREED, [nothing, early, late, nothing, offload]


def _neighbours(problem: PipelineProblem) -> Integers:
    """Data predecessor, successor and latency of each F and B, one row per operation."""
    stages, count = len(problem.stages), problem.micro_batches
    columns = np.zeros((5 * stages * count, 3), dtype=np.int64)
    columns[:, :2] = -1
    for s, transfer in enumerate(problem.transfers):
        for kind, late, early, hops in (
            (FORWARD, s + 1, s, transfer.forward_ns),
            (BACKWARD, s, s + 1, transfer.backward_ns),
        ):
            after = (kind * stages + late) * count + np.arange(count)
            before = (kind * stages + early) * count + np.arange(count)
            columns[after, 0] = before
            columns[before, 1] = after
            columns[after, 2] = hops
    return columns
