"""A problem and its orders as integer arrays, for compiled code.

Operations of a stage and micro-batch are numbered `(kind * stages + stage) * micro_batches +
micro_batch`, with kinds F = 0, B = 1 and W = 2. Tables have one row per stage and one column per
micro-batch; times are nanoseconds, sizes bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.pipeline.orders import Orders
from planner.pipeline.problem import MicroBatchOrder, PipelineProblem
from planner.pipeline.schedule import COMPUTE_KINDS, Token

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class ProblemArrays:
    """What compiled code needs of a problem without offloads.

    `durations` is stacked by kind: F, B, W. `forward_hops[s]` and `backward_hops[s]` are the
    latencies between stages s and s + 1, with a last row of zeros. A device without a limit has
    -1 in `limits`.
    """

    device_of: Numbers
    durations: Numbers
    has_weight: Flags
    forward_hops: Numbers
    backward_hops: Numbers
    activation: Numbers
    backward_allocation: Numbers
    backward_free: Numbers
    late: Numbers
    limits: Numbers
    fixed_order: bool

    @property
    def operations(self) -> int:
        """How many compute operations a schedule has."""
        return 2 * self.has_weight.size + int(self.has_weight.sum())


@dataclass(frozen=True)
class OrderArrays:
    """Operation numbers in the sequence of each device, one device after the other.

    Device d runs `numbers[first[d] : first[d + 1]]`.
    """

    numbers: Numbers
    first: Numbers


def problem_arrays(problem: PipelineProblem) -> ProblemArrays:
    """The tables of a problem."""
    stages, transfers = problem.stages, problem.transfers
    last = [(0,) * problem.micro_batches]
    durations = _table(
        [
            [stage.forward_ns for stage in stages],
            [stage.backward_input_ns for stage in stages],
            [stage.backward_weight_ns for stage in stages],
        ]
    )
    has_weight = durations[2] > 0
    activation = _table([stage.activation_bytes for stage in stages])
    late = np.where(has_weight, _table([stage.weight_grad_bytes for stage in stages]), 0)
    workspace = _table([stage.backward_workspace_bytes for stage in stages])
    limits = [device.activation_memory_bytes for device in problem.devices]
    return ProblemArrays(
        device_of=_table([stage.device for stage in stages]),
        durations=durations,
        has_weight=has_weight,
        forward_hops=_table([t.forward_ns for t in transfers] + last),
        backward_hops=_table([t.backward_ns for t in transfers] + last),
        activation=activation,
        backward_allocation=np.maximum(0, late - activation) + workspace,
        backward_free=np.maximum(0, activation - late) + workspace,
        late=late,
        limits=_table([-1 if limit is None else limit for limit in limits]),
        fixed_order=problem.micro_batch_order is MicroBatchOrder.FIXED,
    )


def order_arrays(problem: PipelineProblem, orders: Orders) -> OrderArrays:
    """The compute operations of orders as numbers."""
    stages, count = len(problem.stages), problem.micro_batches
    base = {kind: k * stages * count for k, kind in enumerate(COMPUTE_KINDS)}
    sequences = [[base[op] + s * count + m for op, s, m in tokens] for tokens in orders.compute]
    return joined(sequences)


def joined(sequences: Sequence[Sequence[int] | Numbers]) -> OrderArrays:
    """One sequence of operation numbers per device, as arrays."""
    lengths = [len(sequence) for sequence in sequences]
    numbers = np.concatenate([np.asarray(sequence, dtype=np.int64) for sequence in sequences])
    return OrderArrays(numbers, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def orders_from_arrays(problem: PipelineProblem, arrays: OrderArrays) -> Orders:
    """The orders that the numbers stand for."""
    stages, count = len(problem.stages), problem.micro_batches
    compute = []
    for d in range(len(problem.devices)):
        own = arrays.numbers[arrays.first[d] : arrays.first[d + 1]].tolist()
        compute.append(
            tuple(
                Token(COMPUTE_KINDS[n // (stages * count)], n // count % stages, n % count)
                for n in own
            )
        )
    return Orders(tuple(compute))


def _table(rows: Sequence[object]) -> Numbers:
    return np.array(rows, dtype=np.int64)
