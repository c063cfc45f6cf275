"""A peak that some plan is known to reach: no proof that none is lower, but a plan that fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.progress import StopCheck, never
from planner.sharding.build import Formulation
from planner.sharding.peak import predicted_peak_bytes
from planner.sharding.strategies import factorisations


def lowest_known_peak_bytes(
    formulation: Formulation, limit_bytes: int, should_stop: StopCheck = never
) -> int | None:
    """The lowest predicted peak among some simple plans that keep no more than the limit, or the
    first within it; None if all keep more. If told to stop, of those looked at until then.

    They are the plan that keeps least, and for each factorisation of the devices the one in which
    every operator has it, or where that is impossible what keeps least.
    """
    lowest: int | None = None
    for choice in _simple_plans(formulation):
        if should_stop():
            break
        if _kept_bytes(formulation, choice) > limit_bytes:
            continue
        peak = predicted_peak_bytes(formulation, choice)
        lowest = peak if lowest is None else min(lowest, peak)
        if lowest <= limit_bytes:
            break
    return lowest


def _kept_bytes(formulation: Formulation, choice: Sequence[int]) -> int:
    return sum(
        times * costs[number].memory_bytes
        for times, costs, number in zip(formulation.times, formulation.costs, choice, strict=True)
    )


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
