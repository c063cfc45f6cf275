"""Exact reductions of an instance: a smaller one with the same optimum, and the way back.

Removing a strategy or merging an operator is allowed where it can be proven, whatever the other
operators choose, that some best plan remains. Among equals the strategy of lower number stays.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from planner.progress import StopCheck, check, never
from planner.sharding.instance import Edge, Instance, OperatorChoice, StrategyCost
from planner.sharding.restrict import GONE, Reduced
from planner.sharding.tables import CostTables, Numbers

__all__ = ["Keeps", "Reduced", "reduce_instance"]

Keeps = Literal["optimum", "front"]
Flags = NDArray[np.bool_]


def reduce_instance(
    instance: Instance, keeps: Keeps = "optimum", should_stop: StopCheck = never
) -> Reduced:
    """Reduce to a fixed point. Some plan of the reduced instance is optimal for the original.

    - A strategy that leaves no room for the least of all others is removed.
    - What a resharding table costs whatever the partner chooses becomes the strategy's own
      communication, and a table of nothing else vanishes; parallel edges are added up.
    - Strategy j' of an operator is removed if some j needs no more memory and costs no more even
      where the partners' choices favour j' most.
    - Operator v merges into a neighbour p if for every strategy of p there is one of v that is at
      least as good as each other, whatever v's other neighbours choose: elementwise operators
      follow their producers, and without a memory limit every operator with one neighbour does.

    `optimum`: costs are compared as redundancy + alpha x communication. That depends on alpha,
    and holds only without further rows: a Pareto front, another alpha or a limit on one of the two
    needs `front`, which compares them apart and keeps, for every plan, one that is no worse in
    either, nor in memory if that is limited. Raises `Interrupted` if told to stop.
    """
    return _Reduction(instance, keeps, should_stop).run()


class _Reduction:
    """One call of `reduce_instance`: costs by operator, tables by pair of operators."""

    def __init__(self, instance: Instance, keeps: Keeps, should_stop: StopCheck) -> None:
        self._instance = instance
        self._keeps = keeps
        self._should_stop = should_stop
        self._costs = CostTables(instance)
        self._is_limited = not self._fits_anyway()
        groups = [operator.strategies for operator in instance.operators]
        self._names = [[strategy.name for strategy in group] for group in groups]
        self._members = [[(v, np.arange(len(group)))] for v, group in enumerate(groups)]
        self._position = [np.arange(len(group)) for group in groups]
        self._waiting = deque(range(len(groups)))
        self._is_waiting = set(self._waiting)

    def run(self) -> Reduced:
        if self._is_limited:
            self._remove_what_cannot_fit()
        while self._waiting:
            check(self._should_stop)
            v = self._waiting.popleft()
            self._is_waiting.discard(v)
            if v in self._costs.pairs:
                self._visit(v)
            if not self._waiting and self._is_limited and self._fits_anyway():
                # Everything that is left fits: memory need not be looked at any more.
                self._is_limited = False
                for u in self._costs.pairs:
                    self._enqueue(u)
        return self._result()

    def _fits_anyway(self) -> bool:
        limit = self._instance.device_memory_bytes
        return limit is None or limit >= sum(
            int(self._costs.memory[v].max()) for v in self._costs.pairs
        )

    def _remove_what_cannot_fit(self) -> None:
        limit = self._instance.device_memory_bytes
        assert limit is not None
        room = limit - sum(int(memory.min()) for memory in self._costs.memory)
        for v, memory in enumerate(self._costs.memory):
            # Where no plan fits at all, the least of each operator stay.
            kept = memory - memory.min() <= max(0, room)
            if not kept.all():
                self._keep(v, kept, np.where(kept, np.arange(len(kept)), GONE))
                self._revisit(v)

    def _keep(self, v: int, kept: Flags, replaced_by: Numbers) -> None:
        """Remove strategies; `replaced_by` says which one of those kept is as good as each."""
        costs = self._costs
        number = np.where(kept, np.cumsum(kept) - 1, GONE)
        old = self._position[v]
        replaced = replaced_by[old]
        self._position[v] = np.where((old == GONE) | (replaced == GONE), GONE, number[replaced])
        costs.redundant[v] = costs.redundant[v][kept]
        costs.communication[v] = costs.communication[v][kept]
        costs.memory[v] = costs.memory[v][kept]
        self._names[v] = [name for name, keep in zip(self._names[v], kept, strict=True) if keep]
        self._members[v] = [(operator, numbers[kept]) for operator, numbers in self._members[v]]
        for w, table in list(costs.pairs[v].items()):
            costs.set_pair(v, w, table[kept])

    def _visit(self, v: int) -> None:
        """Remove what is dominated in v, or merge v away; what that changes is visited again."""
        costs = self._costs
        redundant = _differences(costs.redundant[v])
        communication = _differences(costs.communication[v])
        by_partner = {
            w: (table[:, np.newaxis] - table[np.newaxis]).max(axis=2)
            for w, table in costs.pairs[v].items()
        }
        for most in by_partner.values():
            communication = communication + most
        no_more_memory: Flags = np.array(True)
        if self._is_limited:
            no_more_memory = _differences(costs.memory[v]) <= 0
        better = self._is_no_worse(redundant, communication) & no_more_memory
        if self._remove_dominated(v, better):
            return
        for p in sorted(by_partner):
            own = costs.pairs[p][v]
            given = own[:, :, np.newaxis] - own[:, np.newaxis]
            without = communication - by_partner[p]
            follows = self._is_no_worse(redundant, without + given) & no_more_memory
            best = np.logical_and.reduce(follows, axis=2)
            if best.any(axis=1).all():
                self._merge(v, p, best.argmax(axis=1))
                return

    def _is_no_worse(self, redundant: Numbers, communication: Numbers) -> Flags:
        """Whether j costs no more than j', from the differences of their costs [.., j, j']."""
        if self._keeps == "front":
            return (redundant <= 0) & (communication <= 0)
        flags: Flags = redundant + self._instance.alpha * communication <= 0
        return flags

    def _remove_dominated(self, v: int, better: Flags) -> bool:
        count = len(better)
        if np.count_nonzero(better) == count:
            return False
        kept = np.ones(count, dtype=bool)
        replaced_by = np.arange(count)
        for worse in range(count - 1, -1, -1):
            others = better[:, worse] & kept
            others[worse] = False
            if others.any():
                kept[worse] = False
                replaced_by[replaced_by == worse] = int(others.argmax())
        self._keep(v, kept, replaced_by)
        self._revisit(v)
        return True

    def _merge(self, v: int, p: int, follows: NDArray[np.intp]) -> None:
        """v takes strategy follows[i] wherever p takes i."""
        costs = self._costs
        tables = costs.pairs.pop(v)
        own = costs.pairs[p].pop(v)
        costs.redundant[p] = costs.redundant[p] + costs.redundant[v][follows]
        costs.communication[p] = (
            costs.communication[p]
            + costs.communication[v][follows]
            + own[np.arange(len(follows)), follows]
        )
        costs.memory[p] = costs.memory[p] + costs.memory[v][follows]
        self._members[p] += [(operator, numbers[follows]) for operator, numbers in self._members[v]]
        for w, table in tables.items():
            if w != p:
                del costs.pairs[w][v]
                costs.add_pair(p, w, table[follows])
        self._revisit(p)

    def _revisit(self, v: int) -> None:
        for w in list(self._costs.pairs[v]):
            self._costs.split_pair(v, w)
            self._enqueue(w)
        self._enqueue(v)

    def _enqueue(self, v: int) -> None:
        if v not in self._is_waiting:
            self._is_waiting.add(v)
            self._waiting.append(v)

    def _result(self) -> Reduced:
        costs = self._costs
        left = sorted(costs.pairs)
        number = {v: k for k, v in enumerate(left)}
        operators = tuple(
            OperatorChoice(
                self._instance.operators[v].name,
                tuple(
                    StrategyCost(*fields)
                    for fields in zip(
                        self._names[v],
                        costs.redundant[v].tolist(),
                        costs.communication[v].tolist(),
                        costs.memory[v].tolist(),
                        strict=True,
                    )
                ),
            )
            for v in left
        )
        edges = tuple(
            Edge(number[u], number[v], tuple(map(tuple, table.tolist())))
            for u in left
            for v, table in sorted(costs.pairs[u].items())
            if u < v
        )
        return Reduced(
            instance=replace(self._instance, operators=operators, edges=edges),
            members=tuple(
                tuple((operator, tuple(numbers.tolist())) for operator, numbers in self._members[v])
                for v in left
            ),
            position=tuple(tuple(self._position[v].tolist()) for v in left),
            original_operators=len(self._instance.operators),
        )


def _differences(values: Numbers) -> Numbers:
    """values[j] - values[j'] as [j, j']."""
    return values[:, np.newaxis] - values[np.newaxis]
