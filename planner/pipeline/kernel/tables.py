"""A pipeline problem as flat arrays, for compiled code.

An operation is a whole number: `(kind x stages + stage) x micro-batches + micro-batch`, with the
kinds F, B, W, R, O in this order. Arrays indexed by operation have 5 x stages x micro-batches
entries; operations that the problem does not have (W of a fused backward) are never looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Literal, NamedTuple
from weakref import ref

import numpy as np
import numpy.typing as npt

from planner.compiled import compiled
from planner.pipeline.problem import MicroBatchOrder, Objective, PipelineProblem
from planner.pipeline.schedule import OpKind, TimedOp, Token

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

KINDS: tuple[OpKind, ...] = ("F", "B", "W", "R", "O")
FORWARD, BACKWARD, WEIGHT, RELOAD, OFFLOAD = range(5)
UNLIMITED = 2**62

DURATION, PREDECESSOR, SUCCESSOR, LAG, DEVICE, KIND, CELL, ALLOCATED, FREED, CHANNEL, STAGE = range(
    11
)
"""Columns of `Tables.ops`: see there."""
LIMIT, EPILOGUE, HOST, ASSIGNED_HOST = range(4)
"""Columns of `Tables.devices`."""


class Tables(NamedTuple):
    """The problem's numbers, in few arrays, since compiled calls pay for each.

    `ops[op]`: duration; the operation on the neighbouring stage whose output an F or B needs (or
    -1) and the one that needs this one's; the latency after the former; device; kind; cell
    (stage x micro-batches + micro-batch); bytes allocated at the start and freed at the end;
    channel of an R or O; stage. `devices[d]`: limit, epilogue, host (-1 where it has no limit),
    host (-1 where there is none). `private[c]`: only one device sends through the channel, in one
    direction, to a host without limit. `can_offload[cell]` and `host_limit[h]` in bytes; limits
    are `UNLIMITED` where there are none.
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


_latest: dict[Literal["kept"], tuple[ref[PipelineProblem], Tables]] = {}


def tables_of(problem: PipelineProblem) -> Tables:
    """The arrays of a problem, which nobody may change: those of the problem that was asked for
    last are kept while it exists, since a solve asks for them again and again.

    Threads that ask at once take turns in what is kept; each is answered with its own problem's.
    """
    found = _latest.get("kept")
    if found is None or found[0]() is not problem:
        found = ref(problem, _forget), _tables_of(problem)
        _latest["kept"] = found
    return found[1]


def _forget(gone: ref[PipelineProblem]) -> None:
    """Let go of arrays, of large problems many megabytes, once their problem is gone."""
    found = _latest.get("kept")
    if found is not None and found[0] is gone:
        _latest.pop("kept", None)


def _tables_of(problem: PipelineProblem) -> Tables:
    stages, count = problem.stages, problem.micro_batches
    offload_bytes = _grid_of([stage.offload_bytes for stage in stages], count)
    channel_of, channels = _channels(problem)
    limited = {h for h, host in enumerate(problem.hosts) if host.memory_bytes is not None}
    users: list[set[tuple[int, int]]] = [set() for _ in range(channels)]
    for s in np.flatnonzero(offload_bytes.any(axis=1)).tolist():
        for kind in (RELOAD, OFFLOAD):
            users[channel_of[kind][s]].add((stages[s].device, kind))
    return Tables(
        stages=len(stages),
        micro_batches=count,
        channels=channels,
        fixed_order=int(problem.micro_batch_order is MicroBatchOrder.FIXED),
        steady=int(problem.objective is Objective.STEADY_SPAN),
        ops=_ops_of(problem, offload_bytes, channel_of),
        devices=np.array(
            [
                (
                    _limit(device.activation_memory_bytes),
                    device.epilogue_ns,
                    device.host if device.host in limited else -1,
                    -1 if device.host is None else device.host,
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
        can_offload=offload_bytes.reshape(-1),
        host_limit=np.array([_limit(host.memory_bytes) for host in problem.hosts], dtype=np.int64),
    )


def without_limits(tables: Tables) -> Tables:
    """The same as if all devices and hosts had memory without limit.

    Channels that were not `private` are not made so, which is not wrong but slower.
    """
    devices = tables.devices.copy()
    devices[:, LIMIT] = UNLIMITED
    devices[:, HOST] = -1
    return tables._replace(devices=devices, host_limit=np.full_like(tables.host_limit, UNLIMITED))


@compiled
def grid(tables: Tables, kind: int, column: int) -> Integers:
    """A column of one kind's operations, by stage and micro-batch, in memory of its own."""
    size = tables.stages * tables.micro_batches
    own = np.ascontiguousarray(tables.ops[kind * size : (kind + 1) * size, column])
    return own.reshape((tables.stages, tables.micro_batches))


@compiled
def device_of_stage(tables: Tables) -> Integers:
    """The device of each stage."""
    size = tables.stages * tables.micro_batches
    return np.ascontiguousarray(tables.ops[: size : tables.micro_batches, DEVICE])


@compiled
def compute_durations(tables: Tables) -> Integers:
    """Durations by kind (F, B, W), stage and micro-batch; a W of no length does not exist."""
    block = tables.stages * tables.micro_batches
    flat = np.ascontiguousarray(tables.ops[: RELOAD * block, DURATION])
    return flat.reshape((RELOAD, tables.stages, tables.micro_batches))


def numbered(
    tables: Tables, kinds: Integers, stages: Integers, micro_batches: Integers
) -> Integers:
    """The numbers of operations by their kind, stage and micro-batch."""
    numbers: Integers = (kinds * tables.stages + stages) * tables.micro_batches + micro_batches
    return numbers


def parts_of(tables: Tables, numbers: Integers) -> tuple[Integers, Integers, Integers]:
    """Kind, stage and micro-batch of operations."""
    cells, micro_batches = np.divmod(numbers, tables.micro_batches)
    kinds, stages = np.divmod(cells, tables.stages)
    return kinds, stages, micro_batches


def operation_numbers(tables: Tables, tokens: Iterable[tuple[OpKind, int, int]]) -> Integers:
    """The numbers of tokens' operations, in their sequence."""
    count = tables.micro_batches
    base = {kind: k * tables.stages * count for k, kind in enumerate(KINDS)}
    return np.array([base[op] + s * count + m for op, s, m in tokens], dtype=np.int64)


def timed_columns(tables: Tables, ops: Sequence[TimedOp]) -> tuple[Integers, Integers, Integers]:
    """Numbers, starts and ends (ns) of one or more operations, in their sequence."""
    number_of = {kind: k for k, kind in enumerate(KINDS)}
    names, *rest = zip(*ops, strict=True)
    kinds = np.array([number_of[name] for name in names], dtype=np.int64)
    stages, micro_batches, start_ns, end_ns = (np.array(own, dtype=np.int64) for own in rest)
    return numbered(tables, kinds, stages, micro_batches), start_ns, end_ns


def tokens_of(kinds: Integers, stages: Integers, micro_batches: Integers) -> list[Token]:
    """The tokens of operations by their kind, stage and micro-batch."""
    names = [KINDS[kind] for kind in kinds.tolist()]
    return list(map(Token, names, stages.tolist(), micro_batches.tolist()))


def sequences_of(tables: Tables, compute: Sequence[Iterable[Token]]) -> tuple[Integers, Integers]:
    """Per device the numbers of its F, B, W and R tokens, and how many they are.

    The rows are long enough for every offload that the device could make.
    """
    chunks = np.bincount(device_of_stage(tables), minlength=len(tables.devices))
    longest = 4 * tables.micro_batches * int(chunks.max())
    rows = np.zeros((len(tables.devices), longest), dtype=np.int64)
    lengths = np.zeros(len(tables.devices), dtype=np.int64)
    for d, tokens in enumerate(compute):
        numbers = operation_numbers(tables, tokens)
        rows[d, : len(numbers)] = numbers
        lengths[d] = len(numbers)
    return rows, lengths


def ops_at(tables: Tables, numbers: Integers, start_ns: Integers) -> list[TimedOp]:
    """Operations with their starts, in their sequence."""
    kinds, stages, micro_batches = parts_of(tables, numbers)
    return list(
        map(
            TimedOp,
            [KINDS[kind] for kind in kinds.tolist()],
            stages.tolist(),
            micro_batches.tolist(),
            start_ns.tolist(),
            (start_ns + tables.ops[numbers, DURATION]).tolist(),
        )
    )


def timed_ops(tables: Tables, rows: Integers, lengths: Integers, end_ns: Integers) -> list[TimedOp]:
    """The operations of the rows, and an O for each R, with their ends as timed."""
    numbers = np.concatenate([rows[d, :length] for d, length in enumerate(lengths.tolist())])
    size = tables.stages * tables.micro_batches
    is_reload = numbers // size == RELOAD
    # Each R stands twice, and its second place is its O's.
    numbers = np.repeat(numbers, 1 + is_reload)
    numbers[(np.cumsum(1 + is_reload) - 1)[is_reload]] += (OFFLOAD - RELOAD) * size
    return ops_at(tables, numbers, end_ns[numbers] - tables.ops[numbers, DURATION])


def _limit(value: int | None) -> int:
    return UNLIMITED if value is None else value


def _grid_of(rows: Sequence[Sequence[int]], count: int) -> Integers:
    values = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=len(rows) * count)
    return values.reshape(len(rows), count)


def _channels(problem: PipelineProblem) -> tuple[dict[int, list[int]], int]:
    """The channel of each stage's R and O, by kind, and how many channels there are."""
    numbers: dict[tuple[str, str], int] = {}
    own: dict[int, list[int]] = {RELOAD: [], OFFLOAD: []}
    for s in range(len(problem.stages)):
        for kind, channels in own.items():
            name = problem.channel(s, KINDS[kind])
            channels.append(numbers.setdefault(name, len(numbers)))
    return own, len(numbers)


def _ops_of(
    problem: PipelineProblem, offload_bytes: Integers, channel_of: dict[int, list[int]]
) -> Integers:
    """`Tables.ops`."""
    stages, count = problem.stages, problem.micro_batches
    number = np.arange(5 * len(stages) * count).reshape(5, len(stages), count)
    columns = np.zeros((11, *number.shape), dtype=np.int64)
    duration, allocated, freed = columns[DURATION], columns[ALLOCATED], columns[FREED]
    duration[FORWARD] = _grid_of([stage.forward_ns for stage in stages], count)
    duration[BACKWARD] = _grid_of([stage.backward_input_ns for stage in stages], count)
    duration[WEIGHT] = _grid_of([stage.backward_weight_ns for stage in stages], count)
    duration[RELOAD] = _grid_of([stage.reload_ns for stage in stages], count)
    duration[OFFLOAD] = _grid_of([stage.offload_ns for stage in stages], count)
    # What `Stage` says of one micro-batch, for all at once.
    activation = _grid_of([stage.activation_bytes for stage in stages], count)
    gradient = _grid_of([stage.weight_grad_bytes for stage in stages], count)
    workspace = _grid_of([stage.backward_workspace_bytes for stage in stages], count)
    late = np.where(duration[WEIGHT] > 0, gradient, 0)
    allocated[FORWARD] = activation
    allocated[BACKWARD] = np.maximum(late - activation, 0) + workspace
    allocated[RELOAD] = offload_bytes
    freed[BACKWARD] = np.maximum(activation - late, 0) + workspace
    freed[WEIGHT] = late
    freed[OFFLOAD] = offload_bytes
    columns[[PREDECESSOR, SUCCESSOR]] = -1
    down, up = slice(1, None), slice(None, -1)
    for kind, late_side, early_side, hops in (
        (FORWARD, down, up, [transfer.forward_ns for transfer in problem.transfers]),
        (BACKWARD, up, down, [transfer.backward_ns for transfer in problem.transfers]),
    ):
        columns[PREDECESSOR, kind, late_side] = number[kind, early_side]
        columns[SUCCESSOR, kind, early_side] = number[kind, late_side]
        columns[LAG, kind, late_side] = _grid_of(hops, count)
    columns[DEVICE] = np.array([stage.device for stage in stages])[:, None]
    columns[STAGE] = np.arange(len(stages))[:, None]
    columns[KIND] = np.arange(5)[:, None, None]
    columns[CELL] = number[FORWARD]
    for kind, channels in channel_of.items():
        columns[CHANNEL, kind] = np.array(channels)[:, None]
    return np.ascontiguousarray(columns.reshape(11, -1).T)
