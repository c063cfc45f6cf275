"""A peak that some plan is known to reach: no proof that none is lower, but a plan that fits."""

from __future__ import annotations

from collections.abc import Iterator

from planner.sharding.build import Formulation
from planner.sharding.peak import predicted_peak_bytes
from planner.sharding.strategies import factorisations


def lowest_known_peak_bytes(formulation: Formulation, limit_bytes: int) -> int:
    """The lowest predicted peak among some simple plans, or the first within the limit.

    They are the plan that keeps least, and for each factorisation of the devices the one in which
    every operator has it, or where that is impossible what keeps least.
    """
    lowest: int | None = None
    for choice in _simple_plans(formulation):
        peak = predicted_peak_bytes(formulation, choice)
        lowest = peak if lowest is None else min(lowest, peak)
        if lowest <= limit_bytes:
            break
    assert lowest is not None
    return lowest


def _simple_plans(formulation: Formulation) -> Iterator[list[int]]:
    leanest = []
    for costs in formulation.costs:
        kept = [cost.memory_bytes for cost in costs]
        leanest.append(kept.index(min(kept)))
    yield leanest
    for degrees in factorisations(formulation.settings.devices.count):
        choice = []
        for number, strategies in enumerate(formulation.strategies):
            same = [place for place, own in enumerate(strategies) if own.degrees == degrees]
            choice.append(same[-1] if same else leanest[number])
        yield choice
