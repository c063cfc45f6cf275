"""Why a strategy is not in the plan: the best plan that has it, and what that costs more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.sharding.build import Formulation
from planner.sharding.certificate import proven_of
from planner.sharding.instance import totals
from planner.sharding.least_memory import least_memory
from planner.sharding.planning import Found
from planner.sharding.spec import Question
from planner.sizes import gib

SAME_WITHIN = 1e-6
"""Relative difference of two objectives that engines do not tell apart."""


def explain(
    question: Question,
    had: Sequence[str],
    found: Found,
    with_it: Found,
    formulation: Formulation,
    limit_bytes: int | None,
    *,
    is_restricted: bool,
) -> dict[str, Any]:
    """`with_it` is the best plan of `formulation`, in which the operator has the strategy; `had`
    are the strategies that the plan gives it (with layers written out, in each layer);
    `is_restricted` says that pins or prohibitions bound the plan."""
    described = _described(question)
    assert found.plan is not None
    if with_it.plan is None:
        least_bytes = least_memory(formulation).total_bytes
        return {
            **described,
            "possible": None if with_it.status == "no_plan" else False,
            "reason": f"every plan with it keeps at least {gib(least_bytes)} on a device, which "
            f"may keep {gib(limit_bytes)}"
            if limit_bytes is not None and least_bytes > limit_bytes
            else "no plan with it was found that fits",
        }
    own = totals(found.instance, found.plan.choice)
    other = totals(with_it.instance, with_it.plan.choice)
    more = with_it.plan.objective - found.plan.objective
    is_proven = all(proven_of(one, limit_bytes).is_best for one in (found, with_it))
    allowed_bytes = found.instance.device_memory_bytes
    keeps_more = allowed_bytes is not None and other.memory_bytes > allowed_bytes
    return {
        **described,
        "possible": True,
        "proven": is_proven,
        "objective": with_it.plan.objective,
        "objective_difference": more,
        "redundant_bytes_difference": other.redundant_bytes - own.redundant_bytes,
        "communication_bytes_difference": other.communication_bytes - own.communication_bytes,
        "resharding_bytes_difference": other.resharding_bytes - own.resharding_bytes,
        "memory_bytes_difference": other.memory_bytes - own.memory_bytes,
        "reason": "the plan has it"
        if set(had) == {question.strategy}
        else _reason(
            more / max(1.0, abs(found.plan.objective)),
            is_proven=is_proven,
            is_restricted=is_restricted,
            keeps_more=keeps_more,
        ),
        "strategies": [
            formulation.strategies[number][chosen].name
            for number, chosen in enumerate(with_it.plan.choice)
        ],
    }


def unanswered(question: Question) -> dict[str, Any]:
    """The answer where the time was over."""
    return {**_described(question), "possible": None, "reason": "no time was left to look at it"}


def _described(question: Question) -> dict[str, Any]:
    return {"operator": question.operator, "strategy": question.strategy}


def _reason(more: float, *, is_proven: bool, is_restricted: bool, keeps_more: bool) -> str:
    best = "the best plan with it" if is_proven else "the best plan found with it"
    if more > SAME_WITHIN:
        return f"{best} costs more"
    if more >= -SAME_WITHIN:
        return f"{best} is as good: the plan is one of several"
    if is_restricted:
        return "a plan with it costs less, which pins or prohibitions rule out"
    if keeps_more:
        # The plan had to keep less than that one, for the sake of what it needs for a moment.
        return "a plan with it costs less, which keeps more than the plan was allowed to"
    return "a plan with it costs less, which was not found in time"
