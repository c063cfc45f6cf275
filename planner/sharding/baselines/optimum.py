"""The best plan of a baseline's own objective: by elimination, or else by the ILP."""

from __future__ import annotations

import time
from dataclasses import dataclass

from planner.sharding.elimination import TooLarge, find_optimum
from planner.sharding.ilp.solve import solve_instance
from planner.sharding.instance import Instance
from planner.sharding.options import SolveOptions
from planner.sharding.planning import Budget
from planner.sharding.reduce import reduce_instance

MOST_ENTRIES, LONGEST_ELIMINATION_S = 10_000_000, 1.0


@dataclass(frozen=True, slots=True)
class Optimum:
    """A choice, or None for the `reason` given; `is_proven` says that no other is better."""

    choice: tuple[int, ...] | None
    is_proven: bool = False
    reason: str | None = None


def find_best(
    instance: Instance, for_ilp: Instance, options: SolveOptions, budget: Budget
) -> Optimum:
    """`for_ilp` has the same optimum, without what engines cannot tell apart."""
    give_up = time.monotonic() + LONGEST_ELIMINATION_S
    try:
        best = find_optimum(
            instance,
            most_entries=MOST_ENTRIES,
            should_stop=lambda: time.monotonic() > give_up or budget.should_stop(),
        )
    except TooLarge:
        return _by_ilp(for_ilp, options, budget)
    if best is None:
        return Optimum(None, reason="no such plan: infeasible")
    return Optimum(best.choice, is_proven=True)


def _by_ilp(instance: Instance, options: SolveOptions, budget: Budget) -> Optimum:
    reduced = reduce_instance(instance, should_stop=budget.should_stop)
    result = solve_instance(reduced.instance, **budget.ilp_options(options))
    if result.plan is None:
        return Optimum(None, reason=f"no such plan: {result.status.replace('_', ' ')}")
    return Optimum(reduced.expand(result.plan.choice), is_proven=result.status == "optimal")
