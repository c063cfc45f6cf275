"""Elimination where two sums count: per combination the pairs that no other beats in both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from planner.sharding.elimination_problem import Costs, Numbers, Problem, Scope

WORTH_PRUNING = 64
"""Pairs from which it pays to look for those that are beaten before the next are added."""


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Pairs by rising cost and falling memory; of each the strategy that it takes and the pairs of
    the source tables that it is made of."""

    cost: Costs
    memory: Numbers
    strategy: Numbers
    sources: Numbers

    def __len__(self) -> int:
        return len(self.cost)

    def chosen(self, index: NDArray[np.intp] | slice) -> _Pairs:
        return _Pairs(
            self.cost[index], self.memory[index], self.strategy[index], self.sources[index]
        )

    def undominated(self, limit: float) -> _Pairs:
        fitting = self.chosen(np.flatnonzero(self.memory <= limit))
        ordered = fitting.chosen(np.lexsort((fitting.memory, fitting.cost)))
        least = np.minimum.accumulate(ordered.memory)
        better = np.ones(len(ordered), dtype=bool)
        better[1:] = ordered.memory[1:] < least[:-1]
        return ordered.chosen(np.flatnonzero(better))

    def with_each(self, other: _Pairs) -> _Pairs:
        """Every sum of a pair of this and one of the other, which becomes a further source."""
        own, others = len(self), len(other)
        mine = np.repeat(np.arange(own), others)
        theirs = np.tile(np.arange(others), own)
        return _Pairs(
            self.cost[mine] + other.cost[theirs],
            self.memory[mine] + other.memory[theirs],
            self.strategy[mine],
            np.column_stack((self.sources[mine], theirs)),
        )


def _each(costs: Costs, memory: Numbers) -> _Pairs:
    """A pair for each strategy of an operator, made of no others."""
    return _Pairs(costs, memory, np.arange(len(costs)), np.empty((len(costs), 0), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class _PairTable:
    """What the eliminated `operators` cost and need, by strategies of the operators of `scope`."""

    number: int
    scope: Scope
    operators: frozenset[int]
    sources: tuple[_PairTable, ...]
    cells: dict[Scope, _Pairs]

    def at(self, chosen: Sequence[int]) -> _Pairs:
        return self.cells[tuple(chosen[u] for u in self.scope)]


class PairElimination:
    """Under a memory limit: pairs per combination, without those that leave no room for the least
    of the other operators."""

    def __init__(self, problem: Problem, limit: int) -> None:
        self._problem = problem
        self._least = [int(memory.min()) for memory in problem.memory]
        self._room = limit - sum(self._least)
        self._numbers = count()

    def run(self) -> Iterator[tuple[int, ...]]:
        """The choices behind the pairs of the whole that no other beats in both, the cheapest
        first, which needs most memory; none if no plan fits."""
        factors = self._problem.factors
        tables: list[_PairTable] = []
        steps: list[tuple[int, _PairTable]] = []
        for v, scope in self._problem.steps:
            plain = [factor for factor in factors if v in factor[0]]
            factors = [factor for factor in factors if v not in factor[0]]
            sources = tuple(table for table in tables if v in table.scope)
            table = self._without(v, scope, self._problem.added_up(plain, (*scope, v)), sources)
            tables = [other for other in tables if v not in other.scope] + [table]
            steps.append((v, table))
        whole = self._joined(tables)
        for pair in range(len(whole)):
            yield self._trace(steps, tables, whole.sources[pair])

    def _without(
        self, v: int, scope: Scope, plain: Costs, sources: tuple[_PairTable, ...]
    ) -> _PairTable:
        operators = frozenset({v}).union(*(table.operators for table in sources))
        limit = self._limit(operators)
        cells = {}
        chosen = [0] * len(self._problem.sizes)
        for cell in np.ndindex(*plain.shape[:-1]):
            for u, number in zip(scope, cell, strict=True):
                chosen[u] = number
            if sources:
                together = self._together(v, plain[cell], sources, chosen, limit)
            else:
                together = _each(plain[cell], self._problem.memory[v])
            cells[cell] = together.undominated(limit)
        return _PairTable(next(self._numbers), scope, operators, sources, cells)

    def _together(
        self,
        v: int,
        costs: Costs,
        sources: tuple[_PairTable, ...],
        chosen: list[int],
        limit: int,
    ) -> _Pairs:
        """All pairs of one combination, whichever strategy v takes."""
        found = []
        each = _each(costs, self._problem.memory[v])
        for k in range(len(costs)):
            chosen[v] = k
            pairs = each.chosen(slice(k, k + 1))
            for table in sources:
                pairs = self._grown(pairs, table.at(chosen), limit)
            found.append(pairs)
        return _Pairs(
            np.concatenate([pairs.cost for pairs in found]),
            np.concatenate([pairs.memory for pairs in found]),
            np.concatenate([pairs.strategy for pairs in found]),
            np.concatenate([pairs.sources for pairs in found]),
        )

    def _joined(self, tables: list[_PairTable]) -> _Pairs:
        """The tables of separate parts of the graph together."""
        whole = _each(np.zeros(1), np.zeros(1, dtype=np.int64))
        operators: frozenset[int] = frozenset()
        for table in tables:
            operators |= table.operators
            whole = self._grown(whole, table.cells[()], self._limit(operators))
        return whole.undominated(self._limit(operators))

    def _grown(self, pairs: _Pairs, other: _Pairs, limit: int) -> _Pairs:
        self._problem.spend(len(pairs) * len(other))
        grown = pairs.with_each(other)
        return grown.undominated(limit) if len(grown) > WORTH_PRUNING else grown

    def _limit(self, operators: frozenset[int]) -> int:
        """What these operators may need so that the least of the others fits beside them."""
        return self._room + sum(self._least[v] for v in operators)

    def _trace(
        self, steps: list[tuple[int, _PairTable]], tables: list[_PairTable], sources: Numbers
    ) -> tuple[int, ...]:
        """The choice behind a pair of the whole, which is made of these pairs of the tables."""
        choice = [0] * len(self._problem.sizes)
        index = {table.number: int(source) for table, source in zip(tables, sources, strict=True)}
        for v, table in reversed(steps):
            pairs, own = table.at(choice), index[table.number]
            choice[v] = int(pairs.strategy[own])
            for source, number in zip(table.sources, pairs.sources[own], strict=True):
                index[source.number] = int(number)
        return tuple(choice)
