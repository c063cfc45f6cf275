"""The best plan whose predicted peak fits: no ILP knows what is held for a moment.

Plans are looked at from the cheapest on, so that the first that fits is the best of all. Where too
many cheaper ones do not fit, local search finds what it can, and the bound says what is left.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.sharding.build import Formulation
from planner.sharding.cheapest_first import CheapestFirst, Choice
from planner.sharding.elimination_problem import TooLarge
from planner.sharding.fitting_search import FittingSearch
from planner.sharding.instance import Instance
from planner.sharding.tried import LEAST_GAIN, Tried

FEW_PLANS = 10_000
"""Of these all are looked at."""
MOST_IN_ORDER = 2_000
"""Plans that are looked at in order where there are more: a second for one layer."""
LONG_MOST_IN_ORDER, LONG_MOST_PEAKS = 20_000, 30_000
"""The same, and the peaks that local search predicts, where nothing was found before."""
IN_ORDER_SHARE = 0.4
"""Of the time, as long as local search may still be needed."""


class Fitting:
    """A search for the best plan that neither keeps nor ever holds more than `limit_bytes`.

    `compared` is how many plans were looked at in order of their objective if none is better than
    the one found, else 0. No plan that fits costs less than `bound`, where there is one.
    """

    def __init__(
        self,
        formulation: Formulation,
        instance: Instance,
        limit_bytes: int,
        deadline: float,
        should_stop: Callable[[], bool],
    ) -> None:
        self._instance = replace(instance, device_memory_bytes=limit_bytes)
        self._tried = Tried(formulation, self._instance, deadline, should_stop)
        self._is_few = (
            math.prod(len(operator.strategies) for operator in self._instance.operators)
            <= FEW_PLANS
        )
        self._looked_at = 0
        self.compared = 0
        self.bound: float | None = None

    @property
    def least_needed_bytes(self) -> int | None:
        """The least memory, kept or held for a moment, of all plans that were looked at."""
        return self._tried.least_needed_bytes

    def peak_bytes(self, choice: Choice) -> int:
        """The predicted peak of a plan."""
        return self._tried.peak_bytes(choice)

    def run(self, starts: Sequence[Choice]) -> Choice | None:
        """The best plan found that fits; None if none was."""
        tried = self._tried
        for start in dict.fromkeys(starts):
            tried.fits(start)
            if tried.is_over():
                return tried.best
        self._look_in_order(MOST_IN_ORDER)
        none_fits = self._is_few and self.bound == math.inf
        if not self.compared and not none_fits and not tried.is_over():
            FittingSearch(tried).run(starts)
            if self.bound is not None and tried.best_objective <= self.bound * (1 + LEAST_GAIN):
                self.compared = self._looked_at
        return tried.best

    @property
    def is_exhausted(self) -> bool:
        """Whether none fits of all plans that keep no more than the limit."""
        return self._tried.best is None and self.bound == math.inf

    def run_longer(self, starts: Sequence[Choice], deadline: float) -> Choice | None:
        """Go on until a later deadline where no plan that fits was found: by local search from the
        plan on that needs least, then with more plans in order; where there are few, with all."""
        tried = self._tried
        tried.deadline = deadline
        if not self._is_few:
            nearest = [] if tried.least_needed is None else [tried.least_needed]
            FittingSearch(tried, LONG_MOST_PEAKS).run([*nearest, *starts])
        if tried.best is None and not tried.is_over():
            self._looked_at = 0
            self._look_in_order(LONG_MOST_IN_ORDER, share=1.0)
        return tried.best

    def _look_in_order(self, most: int, share: float = IN_ORDER_SHARE) -> None:
        """Look at the cheapest plans until one fits, or none that is left is better than the best
        so far."""
        tried = self._tried
        instance, until = self._instance, tried.deadline
        if self._is_few:
            # All are looked at: those that keep too much count as well for the least needed.
            instance, most = replace(instance, device_memory_bytes=None), FEW_PLANS
        else:
            until -= (1 - share) * (until - time.monotonic())
        try:
            in_order = CheapestFirst(instance, lambda: tried.is_over(until))
        except TooLarge:
            return
        for value, choice in in_order:
            self._looked_at += 1
            if value >= tried.worth_less_than or tried.fits(choice):
                self.compared = self._looked_at
                self.bound = value
                return
            if self._looked_at == most or tried.is_over(until):
                break
        self.bound = min(in_order.least_left, tried.best_objective)
