"""The whole front of redundancy against communication: no point is worse than another in both."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.sharding.build import Formulation
from planner.sharding.elimination import TooLarge, find_front
from planner.sharding.ilp.solve import IlpResult, Objective, solve_instance
from planner.sharding.instance import Instance, totals
from planner.sharding.options import SolveOptions
from planner.sharding.peak import predicted_peak_bytes
from planner.sharding.planning import Budget
from planner.sharding.reduce import Reduced, reduce_instance

MOST_ENTRIES = 100_000_000
"""Of elimination, pairs looked at included."""
ELIMINATION_SHARE = 0.5
"""Of the time left, after which the ILP is tried instead."""


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """One plan of the front; `is_proven` says that nothing is better in one and as good in the
    other. `communication_bytes` are the strategies' own and those of resharding; `peak_bytes` is
    only predicted where memory is limited and time is left."""

    choice: tuple[int, ...]
    redundant_bytes: int
    communication_bytes: int
    memory_bytes: int
    is_proven: bool
    peak_bytes: int | None = None


def front(
    formulation: Formulation,
    limit_bytes: int | None,
    options: SolveOptions,
    budget: Budget,
    *,
    is_lowered: bool = False,
) -> tuple[tuple[FrontPoint, ...], bool]:
    """All points by rising redundancy, and whether these are all there are.

    `limit_bytes` is what a plan may keep; `is_lowered` says that it is less than the devices have,
    so that others which keep more may fit as well: then only points of the front of all plans are
    proven, and all there are only if each of those keeps no more. Elimination gives the front of
    all plans. Where a point of that does not fit, or where the graph is too dense for elimination,
    the ILP finds the next one that does (the epsilon-constraint method, Haimes et al. 1971): least
    redundancy under a limit on communication, then least communication at that redundancy. Raises
    `Interrupted` if told to stop before there is an ILP.
    """
    return _Front(formulation, limit_bytes, options, budget, is_lowered).run()


class _Front:
    """One call of `front`."""

    def __init__(
        self,
        formulation: Formulation,
        limit_bytes: int | None,
        options: SolveOptions,
        budget: Budget,
        is_lowered: bool,
    ) -> None:
        self._formulation = formulation
        self._limit = limit_bytes
        self._is_lowered = is_lowered
        self._has_searched = False
        # A point within a gap of the front is none of it.
        self._options = replace(options, mip_gap=0.0)
        self._budget = budget
        self._instance = formulation.instance(1.0, limit_bytes)

    def run(self) -> tuple[tuple[FrontPoint, ...], bool]:
        known = self._eliminated()
        reduced: Reduced | None = None
        points: list[FrontPoint] = []
        most_sent: int | None = None
        while most_sent is None or most_sent >= 0:
            point = None
            if known is not None:
                point = next((p for p in known if _sends_at_most(p, most_sent)), None)
                if point is None:
                    break
            if point is None or not self._fits(point):
                if self._budget.is_over():
                    return self._done(points, is_end=False)
                reduced = reduced or self._reduced(self._instance)
                point, is_end = self._solved(reduced, most_sent)
                if point is None:
                    return self._done(points, is_end)
                if known is not None and any(_is_as_good(point, own) for own in known):
                    point = replace(point, is_proven=True)
            points.append(point)
            most_sent = point.communication_bytes - 1
        return self._done(points, is_end=True)

    def _done(
        self, points: Sequence[FrontPoint], is_end: bool
    ) -> tuple[tuple[FrontPoint, ...], bool]:
        is_complete = is_end and all(point.is_proven for point in points)
        if self._is_lowered and self._has_searched:
            # A point that keeps more than was allowed here may fit as well.
            is_complete = False
        return tuple(map(self._with_peak, without_dominated(points))), is_complete

    def _with_peak(self, point: FrontPoint) -> FrontPoint:
        if self._limit is None or self._budget.is_over():
            return point
        return replace(point, peak_bytes=predicted_peak_bytes(self._formulation, point.choice))

    def _fits(self, point: FrontPoint) -> bool:
        return self._limit is None or point.memory_bytes <= self._limit

    def _eliminated(self) -> list[FrontPoint] | None:
        """The front of all plans, whatever they keep; None if elimination does not get there."""
        budget = self._budget
        now = time.monotonic()
        give_up = now + ELIMINATION_SHARE * max(0.0, budget.deadline - now)
        unlimited = self._reduced(replace(self._instance, device_memory_bytes=None))
        try:
            choices = find_front(
                unlimited.instance,
                most_entries=MOST_ENTRIES,
                should_stop=lambda: time.monotonic() > give_up or budget.should_stop(),
            )
        except TooLarge:
            return None
        return [self._point(unlimited.expand(choice), is_proven=True) for choice in choices]

    def _reduced(self, instance: Instance) -> Reduced:
        return reduce_instance(instance, keeps="front", should_stop=self._budget.should_stop)

    def _solved(self, reduced: Reduced, most_sent: int | None) -> tuple[FrontPoint | None, bool]:
        """The next point by the ILP; without one, whether that is proven to be the end."""
        self._has_searched = True
        first = self._solve(reduced.instance, "redundancy", most_sent, None)
        if first.plan is None:
            return None, first.status == "infeasible"
        most_redundant = totals(reduced.instance, first.plan.choice).redundant_bytes
        second = self._solve(reduced.instance, "communication", most_sent, most_redundant)
        best = second.plan or first.plan
        is_proven = first.status == "optimal" and second.status == "optimal"
        is_proven = is_proven and not self._is_lowered
        return self._point(reduced.expand(best.choice), is_proven), False

    def _solve(
        self,
        instance: Instance,
        objective: Objective,
        most_sent: int | None,
        most_redundant: int | None,
    ) -> IlpResult:
        return solve_instance(
            instance,
            **self._budget.ilp_options(self._options),
            objective=objective,
            communication_limit_bytes=most_sent,
            redundancy_limit_bytes=most_redundant,
        )

    def _point(self, choice: tuple[int, ...], is_proven: bool) -> FrontPoint:
        sums = totals(self._instance, choice)
        sent = sums.communication_bytes + sums.resharding_bytes
        self._budget.log(f"front: {sums.redundant_bytes} bytes redundant, {sent} bytes sent")
        return FrontPoint(choice, sums.redundant_bytes, sent, sums.memory_bytes, is_proven)


def without_dominated(points: Sequence[FrontPoint]) -> tuple[FrontPoint, ...]:
    """By rising redundancy, without those that another one beats or equals in both."""
    kept: list[FrontPoint] = []
    for point in sorted(points, key=lambda p: (p.redundant_bytes, p.communication_bytes)):
        if not kept or point.communication_bytes < kept[-1].communication_bytes:
            kept.append(point)
    return tuple(kept)


def _is_as_good(point: FrontPoint, other: FrontPoint) -> bool:
    return (point.redundant_bytes, point.communication_bytes) == (
        other.redundant_bytes,
        other.communication_bytes,
    )


def _sends_at_most(point: FrontPoint, most_sent: int | None) -> bool:
    return most_sent is None or point.communication_bytes <= most_sent
