"""The sequences of devices as operation numbers, one device after the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from planner.pipeline.kernel.tables import (
    Integers,
    Tables,
    operation_numbers,
    parts_of,
    tokens_of,
)
from planner.pipeline.orders import Orders


class OrderArrays(NamedTuple):
    """Device d runs `numbers[first[d] : first[d + 1]]`: F, B, W and R, as in `Orders.compute`."""

    numbers: Integers
    first: Integers


def joined(sequences: Sequence[Integers]) -> OrderArrays:
    """Of one sequence of operation numbers per device."""
    return OrderArrays(np.concatenate(sequences), _bounds(sequences))


def order_arrays(tables: Tables, orders: Orders) -> OrderArrays:
    """The compute sequences of orders as numbers."""
    numbers = operation_numbers(tables, chain.from_iterable(orders.compute))
    return OrderArrays(numbers, _bounds(orders.compute))


def orders_from_arrays(tables: Tables, arrays: OrderArrays) -> Orders:
    """The orders that the numbers stand for; transfers first come, first served."""
    tokens = tokens_of(*parts_of(tables, arrays.numbers))
    return Orders(tuple(tuple(tokens[a:b]) for a, b in pairwise(arrays.first.tolist())))


def _bounds(sequences: Sequence[Sequence[object] | Integers]) -> Integers:
    return np.cumsum([0, *map(len, sequences)]).astype(np.int64)
