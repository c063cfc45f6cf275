"""Instances of few plans: comparing them all takes less time than starting an engine."""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from planner.sharding.ilp.result import IlpResult
from planner.sharding.instance import Instance, Plan

MOST_PLANS = 10_000
"""A millisecond or two for the dozen operators that reductions leave of a Transformer layer, where
the child process of an engine alone takes thirty."""


def best_of_few(instance: Instance) -> IlpResult | None:
    """The plan of least objective within the device's memory, found by looking at every plan; None
    where there are more than `MOST_PLANS`.

    All sums are of whole numbers and exact. Of several best plans it is the first, in the order in
    which the last operator's strategy changes fastest.
    """
    begun = time.monotonic()
    groups = [operator.strategies for operator in instance.operators]
    count = math.prod(map(len, groups))
    if count > MOST_PLANS:
        return None
    taken = _strategies_taken([len(group) for group in groups], count)
    redundant, sent, memory = np.zeros((3, count), dtype=np.int64)
    for group, own in zip(groups, taken, strict=True):
        redundant += np.array([strategy.redundant_bytes for strategy in group])[own]
        sent += np.array([strategy.communication_bytes for strategy in group])[own]
        memory += np.array([strategy.memory_bytes for strategy in group])[own]
    for edge in instance.edges:
        sent += np.array(edge.resharding_bytes)[taken[edge.source], taken[edge.target]]
    objective = redundant + instance.alpha * sent
    limit = instance.device_memory_bytes
    if limit is not None:
        objective = np.where(memory <= limit, objective, np.inf)
    best = int(objective.argmin())
    plan = None
    if objective[best] < np.inf:
        least = float(objective[best])
        choice = tuple(int(own[best]) for own in taken)
        plan = Plan(choice, least, int(memory[best]), "optimal", least)
    return IlpResult(
        plan=plan,
        status="infeasible" if plan is None else "optimal",
        lower_bound=None if plan is None else plan.objective,
        ended_by="compared",
        columns=0,
        rows=0,
        rounds=0,
        formulate_s=time.monotonic() - begun,
        engine_s=0.0,
        log_tail=[],
        compared=count,
    )


def _strategies_taken(sizes: list[int], count: int) -> list[NDArray[np.int64]]:
    """Per operator the strategy that it has in each of all plans."""
    taken = []
    numbers = np.arange(count)
    for size in reversed(sizes):
        numbers, own = np.divmod(numbers, size)
        taken.append(own)
    return taken[::-1]
