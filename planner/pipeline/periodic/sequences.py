"""Device sequences as arrays, timed by the compiled simulation."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from planner.pipeline.compiled_simulation import (
    KINDS,
    B,
    F,
    IntArray,
    O,
    R,
    W,
    operation_numbers,
    problem_arrays,
    simulate,
)
from planner.pipeline.orders import Orders
from planner.pipeline.problem import Objective, PipelineProblem
from planner.pipeline.schedule import Token

EMPTY = np.empty(0, dtype=np.int64)

__all__ = [
    "B",
    "F",
    "IntArray",
    "O",
    "R",
    "Sequences",
    "Timing",
    "W",
    "sequences_of_orders",
    "time_sequences",
]


@dataclass(frozen=True)
class Sequences:
    """One row (kind, stage, micro-batch) per token, device after device.

    Device d's tokens are `tokens[first[d] : first[d + 1]]`; F, B, W and R, as in `Orders.compute`.
    """

    tokens: IntArray
    first: IntArray

    @classmethod
    def join(cls, devices: list[IntArray]) -> Sequences:
        """Of one array of rows per device."""
        first = np.cumsum([0, *map(len, devices)]).astype(np.int64)
        return cls(np.concatenate(devices), first)

    def of_device(self, device: int) -> IntArray:
        """The rows of one device."""
        return self.tokens[self.first[device] : self.first[device + 1]]

    def to_orders(self) -> Orders:
        """The same as tokens; transfers first come, first served."""
        kinds = [KINDS[kind] for kind in self.tokens[:, 0].tolist()]
        rows = self.tokens.tolist()
        tokens = [Token(kind, s, m) for kind, (_, s, m) in zip(kinds, rows, strict=True)]
        return Orders(tuple(tuple(tokens[a:b]) for a, b in pairwise(self.first.tolist())))


@dataclass(frozen=True)
class Timing:
    """When operations start: `start_ns` by operation number, -1 where there is none.

    `objective_ns` is the problem's objective.
    """

    start_ns: IntArray
    objective_ns: int


def sequences_of_orders(problem: PipelineProblem, orders: Orders) -> Sequences:
    """The compute sequences of orders."""
    block, count = len(problem.stages) * problem.micro_batches, problem.micro_batches
    devices = []
    for tokens in orders.compute:
        numbers = operation_numbers(problem, tokens)
        cells = numbers % block
        devices.append(np.stack([numbers // block, cells // count, cells % count], axis=1))
    return Sequences.join(devices)


def time_sequences(
    problem: PipelineProblem, sequences: Sequences, *, enforce_memory: bool = True
) -> Timing | None:
    """The earliest times, transfers first come, first served; None on deadlock."""
    arrays = problem_arrays(problem, enforce_memory)
    count, block = problem.micro_batches, len(problem.stages) * problem.micro_batches
    tokens = sequences.tokens
    numbers = (tokens[:, 0] * len(problem.stages) + tokens[:, 1]) * count + tokens[:, 2]
    started, starts, complete = simulate(arrays, numbers, sequences.first, EMPTY, EMPTY)
    if not complete:
        return None
    start_ns = np.full(5 * block, -1, dtype=np.int64)
    start_ns[started] = starts
    end_ns = start_ns + arrays.duration
    opened, closed = [], []
    for d, device in enumerate(problem.devices):
        own = numbers[sequences.first[d] : sequences.first[d + 1]]
        own = own[own < O * block]
        if len(own):
            opened.append(int(start_ns[own].min()))
            closed.append(int(end_ns[own].max()) + device.epilogue_ns)
    if problem.objective is Objective.MAKESPAN:
        return Timing(start_ns, max(closed) - min(opened))
    return Timing(start_ns, max(b - a for a, b in zip(opened, closed, strict=True)))
