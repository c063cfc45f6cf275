"""Local search for plans whose predicted peak fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from planner.sharding.cheapest_first import CheapestFirst, Choice
from planner.sharding.elimination_problem import Costs, TooLarge
from planner.sharding.instance import Instance
from planner.sharding.neighbourhoods import neighbourhoods
from planner.sharding.restrict import restrict
from planner.sharding.tables import CostTables, Weights
from planner.sharding.tried import Tried

Bytes = Sequence[NDArray[np.int64]]
"""Memory by operator and strategy."""

MOST_PEAKS = 3_000
"""That are predicted: a second and a half for one layer."""
MOST_SWEEPS = 20
MOST_STEPS = 2_000
"""To the cheapest plans of one kind."""
WEIGHTS_TRIED, PLANS_PER_WEIGHT = 14, 20
"""Of memory in the objective, and the cheapest plans that are looked at with each."""
NEIGHBOURHOOD_SIZES, PLANS_PER_NEIGHBOURHOOD = (2, 4, 6), 30
"""Operators that change together, and the cheapest plans that are looked at then."""


class FittingSearch:
    """Improves the best of the plans that were tried.

    Memory gets a weight in the objective, the least with which one of the cheapest plans fits. From
    each start one operator's strategy after the other is changed: first to lower what is too much,
    then, within the limit, to lower the objective. The best plan of all these is improved by
    changing neighbouring operators together, and by weighing what each change of it adds to what it
    needs at most.
    """

    def __init__(self, tried: Tried, most_peaks: int = MOST_PEAKS) -> None:
        self._tried = tried
        self._instance = tried.instance
        self._costs = CostTables(tried.instance)
        self._weights = Weights(1.0, tried.instance.alpha)
        self._own = self._costs.weighted(self._weights)
        self._most_peaks = tried.peaks_known + most_peaks

    def run(self, starts: Sequence[Choice]) -> None:
        """Search from these plans on, as long as there is time and it helps."""
        tried = self._tried
        self._weigh(self._costs.memory)
        for start in dict.fromkeys(starts):
            choice = self._made_to_fit(start)
            if choice is not None:
                self._improve(choice)
        objective = None
        while tried.best is not None and tried.best_objective != objective:
            objective = tried.best_objective
            for size in NEIGHBOURHOOD_SIZES:
                self._change_together(size)
            self._weigh(self._added_bytes(tried.best))

    def _is_over(self) -> bool:
        return self._tried.peaks_known >= self._most_peaks or self._tried.is_over()

    def _in_order(
        self, instance: Instance, penalties: Sequence[Costs] = ()
    ) -> Iterator[tuple[float, Choice]]:
        """The cheapest plans, as long as there is time; none where the graph is too dense."""
        if self._is_over():
            return
        try:
            in_order = CheapestFirst(
                instance, self._tried.is_over, penalties, most_steps=MOST_STEPS
            )
        except TooLarge:
            return
        for found in in_order:
            yield found
            if self._is_over():
                return

    def _weigh(self, memory: Bytes) -> None:
        """Look at the cheapest plans with several weights of such memory in the objective."""
        spread = sum(int(own.max() - own.min()) for own in memory)
        if not spread:
            return
        costs = sum(float(own.max() - own.min()) for own in self._own)
        low, high, weight = 0.0, 0.0, max(costs, 1.0) / spread
        for _ in range(WEIGHTS_TRIED):
            penalties = [weight * own.astype(np.float64) for own in memory]
            plans = islice(self._in_order(self._instance, penalties), PLANS_PER_WEIGHT)
            if any(self._tried.fits(choice) for _, choice in plans):
                high = weight
            else:
                low = weight
            if self._is_over():
                return
            weight = (low + high) / 2 if high else 4 * low

    def _added_bytes(self, choice: Choice) -> Bytes:
        """What each change of one strategy adds to what a plan needs at most."""
        needed = self._tried.needed_bytes(choice)
        added = [np.zeros(len(own), dtype=np.int64) for own in self._own]
        for v, k in self._changes():
            if self._is_over():
                break
            changed = (*choice[:v], k, *choice[v + 1 :])
            added[v][k] = self._tried.needed_bytes(changed) - needed
        return added

    def _change_together(self, size: int) -> None:
        """Find better plans that differ from the best in so many neighbouring operators."""
        for together in neighbourhoods(self._instance, size):
            if self._is_over() or self._tried.best is None:
                return
            best = self._tried.best
            allowed = [
                range(len(own)) if v in together else (best[v],) for v, own in enumerate(self._own)
            ]
            part = restrict(self._instance, allowed)
            for value, choice in islice(self._in_order(part.instance), PLANS_PER_NEIGHBOURHOOD):
                if value >= self._tried.worth_less_than or self._tried.fits(part.expand(choice)):
                    break

    def _changes(self) -> Iterator[tuple[int, int]]:
        """Each operator with each of its strategies."""
        for v, own in enumerate(self._own):
            yield from ((v, k) for k in range(len(own)))

    def _made_to_fit(self, choice: Choice) -> Choice | None:
        limit = self._tried.limit_bytes
        needed = self._tried.needed_bytes(choice)
        for _ in range(MOST_SWEEPS):
            before = needed
            for v, k in self._changes():
                if needed <= limit:
                    return choice
                if self._is_over():
                    return None
                changed = (*choice[:v], k, *choice[v + 1 :])
                found = self._tried.needed_bytes(changed)
                if found < needed:
                    choice, needed = changed, found
            if needed == before:
                break
        return choice if needed <= limit else None

    def _improve(self, choice: Choice) -> None:
        for _ in range(MOST_SWEEPS):
            before = choice
            for v in range(len(choice)):
                choice = self._improved_at(choice, v)
                if self._is_over():
                    return
            if choice == before:
                return

    def _improved_at(self, choice: Choice, v: int) -> Choice:
        """With the cheapest strategy of one operator that fits."""
        value = self._own[v].copy()
        for w in self._costs.pairs[v]:
            value += self._costs.weighted_pair(self._weights, v, w)[:, choice[w]]
        for k in value.argsort(kind="stable").tolist():
            if value[k] >= value[choice[v]]:
                break
            changed = (*choice[:v], k, *choice[v + 1 :])
            if self._tried.fits(changed):
                return changed
        return choice
