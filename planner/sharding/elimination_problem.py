"""What elimination works on: costs as factors, and the order in which operators go."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from planner.errors import PlannerError
from planner.sharding.instance import Instance

Costs = NDArray[np.float64]
Numbers = NDArray[np.int64]
Scope = tuple[int, ...]


class TooLarge(PlannerError):
    """The tables would not fit, or it would take too long: nothing is proven then."""


class Problem:
    """Costs as factors over one or two operators, and the order of elimination."""

    def __init__(
        self, instance: Instance, most_entries: int, should_stop: Callable[[], bool]
    ) -> None:
        self._left = most_entries
        self._should_stop = should_stop
        # Where it is time to stop already, not even the factors are made.
        self.spend(0)
        alpha = instance.alpha
        groups = [operator.strategies for operator in instance.operators]
        self.sizes = [len(group) for group in groups]
        self.memory = [np.array([s.memory_bytes for s in g], dtype=np.int64) for g in groups]
        self.factors: list[tuple[Scope, Costs]] = [
            ((v,), np.array([s.cost(alpha) for s in group])) for v, group in enumerate(groups)
        ]
        self.factors += [
            ((edge.source, edge.target), alpha * np.array(edge.resharding_bytes, dtype=np.float64))
            for edge in instance.edges
        ]
        self.steps = self._steps()

    def spend(self, entries: int) -> None:
        """Account for so many more entries."""
        self._left -= entries
        if self._left < 0 or self._should_stop():
            raise TooLarge("the instance is too large for elimination")

    def _steps(self) -> list[tuple[int, Scope]]:
        """Operators in the order of elimination, each with the neighbours that are left then: the
        next is always one with the fewest combinations of neighbours."""
        neighbours: dict[int, set[int]] = {v: set() for v in range(len(self.sizes))}
        for scope, _ in self.factors:
            for v in scope:
                neighbours[v].update(scope)
        for v, near in neighbours.items():
            near.discard(v)
        combinations = {v: self._combinations(near) for v, near in neighbours.items()}
        # Entries of operators whose neighbours have changed since are passed over.
        waiting = [(size, v) for v, size in combinations.items()]
        heapq.heapify(waiting)
        steps = []
        while waiting:
            size, v = heapq.heappop(waiting)
            if v not in neighbours or size != combinations[v]:
                continue
            self.spend(size * self.sizes[v])
            near = neighbours.pop(v)
            for u in near:
                neighbours[u] |= near
                neighbours[u] -= {u, v}
                combinations[u] = self._combinations(neighbours[u])
                heapq.heappush(waiting, (combinations[u], u))
            steps.append((v, tuple(sorted(near))))
        return steps

    def _combinations(self, operators: set[int]) -> int:
        return math.prod(self.sizes[u] for u in operators)

    def added_up(self, factors: list[tuple[Scope, Costs]], axes: Scope) -> Costs:
        """The sum of factors as one table over `axes`."""
        total = np.zeros([self.sizes[u] for u in axes])
        for scope, table in factors:
            inside = [u for u in axes if u in scope]
            shape = [self.sizes[u] if u in scope else 1 for u in axes]
            total = total + table.transpose([scope.index(u) for u in inside]).reshape(shape)
        return total
