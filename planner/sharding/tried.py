"""Plans that were looked at to find one whose predicted peak fits, and the best of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from planner.sharding.build import Formulation
from planner.sharding.cheapest_first import Choice
from planner.sharding.instance import Instance, totals
from planner.sharding.peak import predicted_peak_bytes

LEAST_GAIN = 1e-9
"""Of the objective: less is rounding."""


class Tried:
    """The plans of an instance that were looked at, until the deadline or a stop.

    `best` is the cheapest that neither keeps nor ever holds more than the instance's memory limit.
    `least_needed_bytes` is the least memory, kept or held for a moment, of any, and `least_needed`
    the plan that needs it.
    """

    def __init__(
        self,
        formulation: Formulation,
        instance: Instance,
        deadline: float,
        should_stop: Callable[[], bool],
    ) -> None:
        assert instance.device_memory_bytes is not None
        self.instance = instance
        self.limit_bytes = instance.device_memory_bytes
        self.deadline = deadline
        self.best: Choice | None = None
        self.best_objective = math.inf
        self.least_needed: Choice | None = None
        self.least_needed_bytes: int | None = None
        self._formulation = formulation
        self._should_stop = should_stop
        self._peaks: dict[Choice, int] = {}

    @property
    def peaks_known(self) -> int:
        """How many plans' peaks were predicted, which takes nearly all of the time."""
        return len(self._peaks)

    @property
    def worth_less_than(self) -> float:
        """What a plan has to cost less than to be better than the best."""
        return self.best_objective * (1 - LEAST_GAIN)

    def is_over(self, until: float | None = None) -> bool:
        """Whether it is time to end, or past another time (of `time.monotonic`)."""
        deadline = self.deadline if until is None else until
        return time.monotonic() >= deadline or self._should_stop()

    def objective(self, choice: Choice) -> float:
        """What a plan costs."""
        return totals(self.instance, choice).objective(self.instance.alpha)

    def peak_bytes(self, choice: Choice) -> int:
        """The predicted peak of a plan."""
        if choice not in self._peaks:
            self._peaks[choice] = predicted_peak_bytes(self._formulation, choice)
        return self._peaks[choice]

    def needed_bytes(self, choice: Choice) -> int:
        """The most memory that a plan keeps or holds; where it fits, it may become the best."""
        kept = totals(self.instance, choice).memory_bytes
        needed = max(kept, self.peak_bytes(choice))
        if self.least_needed_bytes is None or needed < self.least_needed_bytes:
            self.least_needed, self.least_needed_bytes = choice, needed
        if needed <= self.limit_bytes:
            objective = self.objective(choice)
            if self.best is None or objective < self.worth_less_than:
                self.best, self.best_objective = choice, objective
        return needed

    def fits(self, choice: Choice) -> bool:
        """Whether a plan fits. Its peak is only predicted if that can make a difference."""
        kept = totals(self.instance, choice).memory_bytes
        least = self.least_needed_bytes
        if kept > self.limit_bytes and least is not None and least <= kept:
            return False
        return self.needed_bytes(choice) <= self.limit_bytes
