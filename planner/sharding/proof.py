"""A second opinion on a plan, by a program that shares nothing with what found it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from planner.sharding.build import Formulation
from planner.sharding.elimination import TooLarge, find_optimum
from planner.sharding.ilp.result import IlpResult
from planner.sharding.instance import Plan
from planner.sharding.peak import predicted_peak_bytes
from planner.sharding.planning import Found

AGREES_WITHIN = 1e-6
MOST_ENTRIES = 10_000_000
"""Of tables; a transformer takes far fewer unless memory is limited."""
LONGEST_S = 3.0


@dataclass(frozen=True, slots=True)
class Proof:
    """Why the ILP ended, or that it did not run, and what the elimination of operators says of the
    plan."""

    ilp: str
    elimination: str


def second_opinion(
    formulation: Formulation,
    found: Found,
    limit_bytes: int | None,
    should_stop: Callable[[], bool],
) -> tuple[Found, Proof]:
    """What exact elimination of one operator after the other makes of a plan, where the graph is
    not too dense for it.

    It proves a plan that the ILP could not prove in time, and a better one is taken in its place.
    """
    plan = found.plan
    ended_by = _ended_by(found.ilp)
    if found.compared_peaks or found.found_by == "local search":
        ended_by = "not of this plan: those of least objective have peaks that exceed the memory"
    assert plan is not None
    if found.compared_peaks:
        return found, Proof(ended_by, _compared(found.compared_peaks))
    give_up = time.monotonic() + LONGEST_S
    try:
        best = find_optimum(
            found.instance,
            most_entries=MOST_ENTRIES,
            should_stop=lambda: time.monotonic() > give_up or should_stop(),
        )
    except TooLarge:
        return found, Proof(ended_by, "not tried: the graph is too dense or too large")
    assert best is not None
    if not is_better(best, plan):
        proven = replace(plan, status="optimal", lower_bound=plan.objective)
        agreed = replace(found, plan=proven, status="optimal")
        return agreed, Proof(ended_by, "agrees: no plan is better")
    if plan.status == "optimal":
        ended_by = "refuted"
    peak_bytes = predicted_peak_bytes(formulation, best.choice)
    if limit_bytes is None or peak_bytes <= limit_bytes:
        better = replace(
            found, plan=best, status="optimal", peak_bytes=peak_bytes, found_by="elimination"
        )
        return better, Proof(ended_by, "found this plan, and none is better")
    bound = best.objective
    if found.found_by == "local search" and found.bound_of_all is not None:
        # The cheapest plans were looked at one by one before.
        bound = max(bound, found.bound_of_all)
    doubted = replace(plan, status="feasible", lower_bound=bound)
    return replace(found, plan=doubted, status="feasible"), Proof(
        ended_by, f"no plan is below {best.objective:.0f}, but that one's peak exceeds the memory"
    )


def _compared(count: int) -> str:
    """That no plan whose peak fits is better, since so many were looked at in order."""
    if count == 1:
        return "not tried: the cheapest plan of all was looked at, and none is better"
    return f"not tried: of the {count:,} cheapest plans, in order, none whose peak fits is better"


def _ended_by(result: IlpResult) -> str:
    """What the ILP's part in the proof is: none where no engine had to run."""
    if result.compared == 1:
        return "not run: the reductions leave one plan"
    if result.compared:
        return f"not run: all {result.compared:,} plans that the reductions leave were compared"
    if result.ended_by == "proven" and not result.rounds:
        return "not run: the plan found first costs no more than the operators' least together"
    return result.ended_by


def agrees(one: float, other: float) -> bool:
    """Whether two objectives, or a bound and an objective, are the same, rounding aside."""
    return abs(one - other) <= AGREES_WITHIN * max(1.0, abs(other))


def is_better(plan: Plan, other: Plan) -> bool:
    """Whether the first costs less than the other, rounding aside."""
    return plan.objective < other.objective and not agrees(other.objective, plan.objective)
