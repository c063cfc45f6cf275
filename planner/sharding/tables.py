"""An instance as arrays: what strategies cost, and what each pair of operators costs together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.sharding.instance import Instance

Numbers = NDArray[np.int64]
Costs = NDArray[np.float64]


class Weights(NamedTuple):
    """How much a byte held redundantly and a byte sent weigh in the objective."""

    redundancy: float
    communication: float


class CostTables:
    """Whole bytes by operator and strategy, and per pair of operators one resharding table.

    `pairs[u][v][i, j]` is what strategy i of u and j of v cost together, `pairs[v][u]` its
    transpose: parallel edges are added up, whichever way they lead. What a table costs whatever
    the partner chooses is counted as the strategy's own communication, so that every table has a
    zero in each row and column, and a table of nothing but zeros is left out.
    """

    def __init__(self, instance: Instance) -> None:
        groups = [operator.strategies for operator in instance.operators]
        self.redundant = [_numbers(s.redundant_bytes for s in group) for group in groups]
        self.communication = [_numbers(s.communication_bytes for s in group) for group in groups]
        self.memory = [_numbers(s.memory_bytes for s in group) for group in groups]
        self.pairs: dict[int, dict[int, Numbers]] = {v: {} for v in range(len(groups))}
        for edge in instance.edges:
            table = np.array(edge.resharding_bytes, dtype=np.int64)
            self.add_pair(edge.source, edge.target, table)
        for u, v in list(self.edges()):
            self.split_pair(u, v)

    def weighted(self, weights: Weights) -> list[Costs]:
        """What each strategy adds to the objective by itself."""
        return [
            np.asarray(
                weights.redundancy * redundant + weights.communication * communication,
                dtype=np.float64,
            )
            for redundant, communication in zip(self.redundant, self.communication, strict=True)
        ]

    def weighted_pair(self, weights: Weights, u: int, v: int) -> Costs:
        """What each pair of strategies of u and v adds to the objective."""
        return np.asarray(weights.communication * self.pairs[u][v], dtype=np.float64)

    def edges(self) -> Iterator[tuple[int, int]]:
        """The pairs of operators with a table, the lower number first, in order."""
        for u, tables in self.pairs.items():
            for v in sorted(tables):
                if u < v:
                    yield u, v

    def add_pair(self, u: int, v: int, table: Numbers) -> None:
        """Add to what u and v cost together."""
        self.set_pair(u, v, self.pairs[u][v] + table if v in self.pairs[u] else table)

    def set_pair(self, u: int, v: int, table: Numbers) -> None:
        """Replace what u and v cost together."""
        self.pairs[u][v] = table
        self.pairs[v][u] = table.T

    def split_pair(self, u: int, v: int) -> None:
        """Count as own communication what the table costs whatever the partner chooses."""
        table = self.pairs[u][v]
        of_u = table.min(axis=1)
        rest = table - of_u[:, np.newaxis]
        of_v = rest.min(axis=0)
        self.communication[u] = self.communication[u] + of_u
        self.communication[v] = self.communication[v] + of_v
        rest = rest - of_v
        if rest.any():
            self.set_pair(u, v, rest)
        else:
            del self.pairs[u][v], self.pairs[v][u]


def _numbers(values: Iterable[int]) -> Numbers:
    return np.array(list(values), dtype=np.int64)
