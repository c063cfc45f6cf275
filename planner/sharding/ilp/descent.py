"""A quick plan: a start for the engines, and what there is to show if they are stopped at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from planner.sharding.tables import CostTables, Weights

MOST_SWEEPS = 30


def descend(
    costs: CostTables,
    weights: Weights,
    limit_bytes: int | None,
    should_end: Callable[[], bool],
    start: Sequence[int] | None = None,
) -> tuple[int, ...] | None:
    """Change one operator's strategy after the other as long as that makes the plan cheaper.

    Begins with the start, or with each operator's cheapest strategy, or, where those do not fit in
    memory, with the strategies that need least. None if those do not fit either.
    """
    own = costs.weighted(weights)
    choice = [int(cost.argmin()) for cost in own] if start is None else list(start)
    room = _room_bytes(costs, choice, limit_bytes)
    if room < 0:
        choice = [
            int(np.lexsort((cost, memory))[0])
            for cost, memory in zip(own, costs.memory, strict=True)
        ]
        room = _room_bytes(costs, choice, limit_bytes)
    if room < 0:
        return None
    for _ in range(MOST_SWEEPS):
        has_changed = False
        for v, cost in enumerate(own):
            if len(cost) == 1:
                continue
            value = cost.copy()
            for w, table in costs.pairs[v].items():
                value += weights.communication * table[:, choice[w]]
            here = choice[v]
            growth = costs.memory[v] - costs.memory[v][here]
            value[growth > room] = np.inf
            best = int(value.argmin())
            if value[best] < value[here]:
                choice[v] = best
                room -= float(growth[best])
                has_changed = True
        if not has_changed or should_end():
            break
    return tuple(choice)


def _room_bytes(costs: CostTables, choice: Sequence[int], limit_bytes: int | None) -> float:
    if limit_bytes is None:
        return np.inf
    return float(limit_bytes - sum(int(m[k]) for m, k in zip(costs.memory, choice, strict=True)))
