"""What is proven about a plan, and among which plans it is best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from planner.sharding.instance import Plan, PlanStatus
from planner.sharding.planning import Found
from planner.sharding.proof import agrees, is_better
from planner.sharding.stage_answer import StageAnswer
from planner.sharding.verify import VERIFIER, find_violations
from planner.sizes import gib


@dataclass(frozen=True, slots=True)
class Proven:
    """What is proven of a plan among all whose predicted peak fits into a device.

    `status` is what plan and instance show by themselves, without any peak: that a plan is the best
    whose peak fits does not make it the optimum of an instance that knows of none.
    """

    is_best: bool
    status: PlanStatus
    lower_bound: float | None
    gap: float | None


def proven_of(found: Found, limit_bytes: int | None) -> Proven:
    """Where a plan was found: what is proven if a device has `limit_bytes`."""
    plan = found.plan
    assert plan is not None
    bound = _bound_of_all_that_fit(found, limit_bytes)
    is_optimum = plan.status == "optimal"
    is_bound_met = bound is not None and agrees(bound, plan.objective)
    return Proven(
        is_best=is_bound_met and (is_optimum or found.compared_peaks > 0),
        status="optimal" if is_bound_met and is_optimum else "feasible",
        lower_bound=bound,
        gap=gap(plan.objective, bound),
    )


def certificate_of(answer: StageAnswer) -> dict[str, Any]:
    """The `certificate` part of an answer.

    `layers_apart_bound` is the least objective of plans whose layers may differ, without a memory
    limit: null if nothing is folded or it is not known.
    """
    found, limit_bytes, proof = answer.found, answer.limit_bytes, answer.proof
    plan, apart = found.plan, answer.layers_apart
    assert plan is not None
    proven = proven_of(found, limit_bytes)
    return {
        "verified": not find_violations(found.instance, plan),
        "verifier": VERIFIER,
        "proven_optimal": proven.is_best,
        "objective": plan.objective,
        "lower_bound": proven.lower_bound,
        "gap": proven.gap,
        "proof": None if proof is None else {"ilp": proof.ilp, "elimination": proof.elimination},
        "fits": limit_bytes is None
        or (plan.memory_bytes <= limit_bytes and (found.peak_bytes or 0) <= limit_bytes),
        "layers_apart_bound": None if apart is None else apart.objective,
        "scope": [*_layers(answer), *_transient(answer)],
    }


def _bound_of_all_that_fit(found: Found, limit: int | None) -> float | None:
    """The plan's bound, unless it only holds for plans that keep less than the devices have, so
    that what is needed for a moment fits on top: others that keep more may fit as well. The plan's
    objective where the cheapest plans were looked at in order, peaks included."""
    plan, kept = found.plan, found.instance.device_memory_bytes
    assert plan is not None
    if found.compared_peaks:
        return plan.objective
    if limit is None or kept is None or kept >= limit:
        return plan.lower_bound
    if found.bound_of_all is None or plan.lower_bound is None:
        return None
    return min(found.bound_of_all, plan.lower_bound)


def gap(objective: float, bound: float | None) -> float | None:
    """Relative distance of a plan from its bound."""
    if bound is None:
        return None
    return round((objective - bound) / objective, 6) if objective else 0.0


def _layers(answer: StageAnswer) -> Iterator[str]:
    """Whether layers that differ would be better than those of a folded plan."""
    repeat, plan = answer.formulation.graph.repeat, answer.found.plan
    assert plan is not None
    if repeat is None or repeat.count == 1:
        return
    alike = f"among plans that split all {repeat.count} layers alike"
    apart = answer.layers_apart
    if apart is None:
        yield f"{alike}; with solver.exact each layer gets strategies of its own"
    elif not is_better(apart, plan):
        yield (
            f"among all plans: none whose {repeat.count} layers differ is better, which exact "
            "elimination of all layers' operators shows"
        )
    elif answer.limit_bytes is None:
        yield (
            f"{alike}; the best plan whose layers differ has an objective of "
            f"{apart.objective:.0f}, {_share(apart, plan)} less, which solver.exact finds"
        )
    else:
        yield (
            f"{alike}; no plan whose layers differ has an objective below {apart.objective:.0f} "
            f"({_share(apart, plan)} less), and solver.exact says what fits"
        )


def _share(better: Plan, plan: Plan) -> str:
    percent = 100 * (plan.objective - better.objective) / plan.objective
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def _transient(answer: StageAnswer) -> Iterator[str]:
    """Where what is needed for a moment made the plan keep less than the devices hold."""
    limit, kept = answer.limit_bytes, answer.found.instance.device_memory_bytes
    if answer.found.found_by == "local search" and answer.found.status != "optimal":
        yield (
            "found by local search among plans whose predicted peak fits; the bound knows what is "
            "needed for a moment of the cheapest plans only"
        )
    if limit is None or kept is None or kept >= limit:
        return
    bound, plan = answer.found.bound_of_all, answer.found.plan
    assert plan is not None
    if bound is not None and agrees(bound, plan.objective):
        return
    yield (
        f"among plans that keep at most {gib(kept)} of the {gib(limit)}, so that what is needed "
        "for a moment fits on top"
        + ("" if bound is None else f"; no plan that keeps more is below {bound:.0f}")
    )
