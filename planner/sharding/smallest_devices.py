"""How many devices it takes to hold a graph: the fewest on which a plan is found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from planner.errors import Interrupted
from planner.sharding.build import formulate
from planner.sharding.costs import CostSettings
from planner.sharding.graph import Graph
from planner.sharding.known_peak import lowest_known_peak_bytes
from planner.sharding.least_on_devices import LeastKept, LeastOnDevices, on_devices
from planner.sharding.operators.rule import RuleOptions
from planner.sharding.options import SolveOptions
from planner.sharding.planning import Budget, find_plan

LARGEST_SEARCHED = 1024
SEARCH_S = 5.0
QUICK_LOOK_S = 0.3
"""For the first look at a number of devices; most plans that fit are found within a tenth of it."""
UNTIL_POWERS, UNTIL_ALL, UNTIL_END = 0.4, 0.7, 1.0
"""When looking at powers of two, at all numbers, and once more at those without a plan has to be
over, as shares of the time."""


@dataclass(frozen=True)
class Wanted:
    """What is to fit, and how plans of it are found.

    `graph_on` says what the graph is on a number of devices, with identical layers folded.
    `uncounted_bytes` is how much less than the folded graph's plans others may keep.
    """

    graph_on: Callable[[int], Graph]
    settings: CostSettings
    rule_options: RuleOptions
    limit_bytes: int
    alpha: float
    options: SolveOptions
    budget: Budget
    uncounted_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Fewest:
    """The fewest devices, more than there are, on which a plan is known whose peak fits; None if
    none is known on up to `searched` of them. `fewer_ruled_out`: on no number in between does any
    plan fit, since each keeps too much."""

    devices: int | None
    searched: int
    fewer_ruled_out: bool


def smallest_devices(wanted: Wanted) -> Fewest:
    """The fewest devices on which a plan is found, in `SEARCH_S` at most and within the budget.

    Powers of two come first, since most shapes can use them, then all other numbers below the one
    found; numbers whose first look brought no plan get what time is left.
    """
    search = _Search(wanted)
    powers = (1 << exponent for exponent in range(LARGEST_SEARCHED.bit_length()))
    search.look_at(powers, UNTIL_POWERS)
    looked_at = search.look_at(range(search.first, LARGEST_SEARCHED + 1), UNTIL_ALL)
    search.look_again(UNTIL_END)
    if search.found is None:
        return Fewest(None, looked_at, False)
    return Fewest(search.found, search.found, search.all_ruled_out(looked_at))


class _Search:
    """What is known of each number of devices so far."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._least = LeastOnDevices(wanted.settings, wanted.rule_options)
        self._began = time.monotonic()
        self._own = wanted.settings.devices.count
        # No device holds less than an even share of what there is in all.
        self.first = max(self._own + 1, -(-self._least_on(1).size_bytes // wanted.limit_bytes))
        self.found: int | None = None
        self._looked_at: set[int] = set()
        self._in_doubt: set[int] = set()
        self._without_plan = {self._least_on(self._own).parts: self._own}
        """The number of devices that was looked at, by the parts of it that operators use."""

    def look_at(self, counts: Iterable[int], until: float) -> int:
        """A first look at each number below the one found; up to which that got."""
        last = min(self.first - 1, LARGEST_SEARCHED)
        for devices in counts:
            if self.found is not None and devices >= self.found:
                break
            if devices < self.first:
                continue
            if self._seconds_left(until) <= 0:
                break
            if devices not in self._looked_at:
                self._look_at(devices)
            last = devices
        return last

    def look_again(self, until: float) -> None:
        """At numbers without a plan, the smallest first, for equal shares of the time."""
        again = [
            devices
            for devices in sorted(self._without_plan.values())
            if devices > self._own and (self.found is None or devices < self.found)
        ]
        for place, devices in enumerate(again):
            seconds = self._seconds_left(until) / (len(again) - place)
            if seconds <= 0:
                break
            if self._has_plan(devices, seconds):
                self.found = devices
                break

    def all_ruled_out(self, looked_at: int) -> bool:
        """Whether all numbers below the one found were looked at, and none of them is in doubt."""
        assert self.found is not None
        return looked_at >= self.found - 1 and min(self._in_doubt, default=self.found) >= self.found

    def _look_at(self, devices: int) -> None:
        self._looked_at.add(devices)
        least = self._least_on(devices)
        if least.size_bytes > self._wanted.limit_bytes:
            return
        is_new = least.parts not in self._without_plan
        if is_new and (self._has_simple_plan(devices) or self._has_plan(devices, QUICK_LOOK_S)):
            self.found = devices
            return
        self._in_doubt.add(devices)
        self._without_plan.setdefault(least.parts, devices)

    def _least_on(self, devices: int) -> LeastKept:
        wanted = self._wanted
        least = self._least.of(wanted.graph_on(devices), devices)
        return replace(least, size_bytes=least.size_bytes - wanted.uncounted_bytes)

    def _has_plan(self, devices: int, seconds: float) -> bool:
        """Whether a solve finds a plan that fits, as the request's own would."""
        wanted = self._wanted
        budget = self._within(seconds)
        settings = on_devices(wanted.settings, devices)
        with suppress(Interrupted):
            made = formulate(
                wanted.graph_on(devices),
                settings,
                wanted.rule_options,
                should_stop=budget.should_stop,
            )
            found = find_plan(made, wanted.alpha, wanted.limit_bytes, wanted.options, budget)
            if found.plan is not None and found.peak_bytes is not None:
                return max(found.plan.memory_bytes, found.peak_bytes) <= wanted.limit_bytes
        return False

    def _has_simple_plan(self, devices: int) -> bool:
        wanted = self._wanted
        budget = self._within(self._seconds_left(UNTIL_END))
        settings = on_devices(wanted.settings, devices)
        with suppress(Interrupted):
            bare = formulate(
                wanted.graph_on(devices),
                settings,
                wanted.rule_options,
                with_passages=False,
                should_stop=budget.should_stop,
            )
            peak_bytes = lowest_known_peak_bytes(bare, wanted.limit_bytes, budget.should_stop)
            return peak_bytes is not None and peak_bytes <= wanted.limit_bytes
        return False

    def _seconds_left(self, share: float) -> float:
        """Until a share of the time is used up; none once the budget is."""
        budget = self._wanted.budget
        if budget.is_over():
            return 0.0
        end = min(self._began + share * SEARCH_S, budget.deadline)
        return end - time.monotonic()

    def _within(self, seconds: float) -> Budget:
        """The budget, told to stop after so many seconds, that says nothing."""
        budget, end = self._wanted.budget, time.monotonic() + seconds

        def is_over() -> bool:
            return time.monotonic() >= end or budget.should_stop()

        return replace(budget, should_stop=is_over, log=lambda line: None)
