"""Device sequences whose tokens are told by micro-batch, timed by the compiled simulation.

Operation numbers depend on how many micro-batches there are, so they don't serve to make long
sequences out of short ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from planner.pipeline.kernel.event_simulation import simulate_events
from planner.pipeline.kernel.figures import spans_ns
from planner.pipeline.kernel.orders import OrderArrays, order_arrays
from planner.pipeline.kernel.tables import Integers, Tables, numbered, parts_of, tokens_of
from planner.pipeline.orders import Orders


@dataclass(frozen=True)
class Sequences:
    """One row (kind, stage, micro-batch) per token, device after device.

    Device d's tokens are `tokens[first[d] : first[d + 1]]`; F, B, W and R, as in `Orders.compute`.
    """

    tokens: Integers
    first: Integers

    @classmethod
    def join(cls, devices: list[Integers]) -> Sequences:
        """Of one array of rows per device."""
        first = np.cumsum([0, *map(len, devices)]).astype(np.int64)
        return cls(np.concatenate(devices), first)

    def of_device(self, device: int) -> Integers:
        """The rows of one device."""
        return self.tokens[self.first[device] : self.first[device + 1]]

    def to_orders(self) -> Orders:
        """The same as tokens; transfers first come, first served."""
        tokens = tokens_of(*self.tokens.T)
        return Orders(tuple(tuple(tokens[a:b]) for a, b in pairwise(self.first.tolist())))


@dataclass(frozen=True)
class Timing:
    """When operations start: `start_ns` by operation number, -1 where there is none.

    `objective_ns` is the problem's objective.
    """

    start_ns: Integers
    objective_ns: int


def sequences_of_orders(tables: Tables, orders: Orders) -> Sequences:
    """The compute sequences of orders."""
    numbers, first = order_arrays(tables, orders)
    return Sequences(np.stack(parts_of(tables, numbers), axis=1), first)


def time_sequences(tables: Tables, sequences: Sequences) -> Timing | None:
    """The earliest times, transfers first come, first served; None on deadlock."""
    orders = OrderArrays(numbered(tables, *sequences.tokens.T), sequences.first)
    started, starts, complete = simulate_events(tables, orders)
    if not complete:
        return None
    start_ns = np.full(len(tables.ops), -1, dtype=np.int64)
    start_ns[started] = starts
    makespan_ns, steady_span_ns = spans_ns(tables, start_ns)
    return Timing(start_ns, steady_span_ns if tables.steady else makespan_ns)
