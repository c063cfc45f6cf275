"""The exact optimum of an instance without any solver: by eliminating one operator after another.

An operator's best strategy is found for each combination of its neighbours' strategies, and a table
of what that costs takes its place (bucket elimination: Dechter 1999). Under a memory limit, and for
the front of redundancy against communication, a table holds, per combination, the pairs of both
sums that no other beats in both. Quick where the graph is like a chain, as Transformers are;
impossible where it is dense.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.progress import never
from planner.sharding.elimination_pairs import PairElimination
from planner.sharding.elimination_problem import Costs, Problem, Scope, TooLarge
from planner.sharding.instance import Instance, OperatorChoice, Plan, totals

__all__ = ["TooLarge", "find_front", "find_optimum"]

MOST_ENTRIES = 3_000_000
"""Entries of all tables together, pairs included, above which it is given up."""


def find_optimum(
    instance: Instance,
    *,
    most_entries: int = MOST_ENTRIES,
    should_stop: Callable[[], bool] = never,
) -> Plan | None:
    """A plan of least objective within the device's memory; None if no plan fits.

    Raises `TooLarge` where the tables exceed `most_entries`, or if it is told to stop.
    """
    problem = Problem(instance, most_entries, should_stop)
    limit = instance.device_memory_bytes
    best = _eliminate(problem)
    choice: tuple[int, ...] | None = best
    if limit is not None and totals(instance, best).memory_bytes > limit:
        # The best plan of all does not fit.
        choice = next(PairElimination(problem, limit).run(), None)
    if choice is None:
        return None
    sums = totals(instance, choice)
    objective = sums.objective(instance.alpha)
    return Plan(choice, objective, sums.memory_bytes, "optimal", objective)


def find_front(
    instance: Instance,
    *,
    most_entries: int = MOST_ENTRIES,
    should_stop: Callable[[], bool] = never,
) -> list[tuple[int, ...]]:
    """The choices, by rising redundancy, that no other beats in both redundancy and bytes sent,
    one for each pair of the two. The device's memory is taken to be no limit.

    Raises `TooLarge` as `find_optimum` does.
    """
    # Bytes sent are what is minimised, and redundancy takes the place of memory.
    swapped = Instance(
        tuple(
            OperatorChoice(
                operator.name,
                tuple(
                    replace(own, redundant_bytes=0, memory_bytes=own.redundant_bytes)
                    for own in operator.strategies
                ),
            )
            for operator in instance.operators
        ),
        instance.edges,
        1.0,
    )
    problem = Problem(swapped, most_entries, should_stop)
    limit = sum(int(redundant.max()) for redundant in problem.memory)
    return list(PairElimination(problem, limit).run())[::-1]


def _eliminate(problem: Problem) -> tuple[int, ...]:
    """Without a limit: one number per combination."""
    place = {v: number for number, (v, _) in enumerate(problem.steps)}
    # Each factor waits for the first of its operators to go.
    buckets: list[list[tuple[Scope, Costs]]] = [[] for _ in problem.steps]
    for factor in problem.factors:
        buckets[min(place[v] for v in factor[0])].append(factor)
    best_of: list[NDArray[np.intp]] = []
    for (v, scope), mine in zip(problem.steps, buckets, strict=True):
        table = problem.added_up(mine, (*scope, v))
        best_of.append(table.argmin(axis=-1))
        if scope:
            buckets[min(place[u] for u in scope)].append((scope, table.min(axis=-1)))
    choice = [0] * len(problem.sizes)
    for (v, scope), best in zip(reversed(problem.steps), reversed(best_of), strict=True):
        choice[v] = int(best[tuple(choice[u] for u in scope)])
    return tuple(choice)
