"""Plans whose predicted peak fits, by local search: no ILP knows what is held for a moment."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence

from planner.sharding.build import Formulation
from planner.sharding.instance import Instance, totals
from planner.sharding.peak import predicted_peak_bytes
from planner.sharding.tables import CostTables, Weights

Choice = tuple[int, ...]

MOST_SWEEPS = 20
FEW_PLANS = 10_000


class Fitting:
    """A search for the best plan that neither keeps nor ever holds more than `limit_bytes`.

    From each start one operator's strategy after the other is changed: first to lower what is too
    much, then, within the limit, to lower the objective. `least_needed_bytes` is the least memory,
    kept or held for a moment, of all plans that were looked at for that. `compared` is how many
    plans there are where none is better than the one found, else 0.
    """

    def __init__(
        self,
        formulation: Formulation,
        instance: Instance,
        limit_bytes: int,
        deadline: float,
        should_stop: Callable[[], bool],
    ) -> None:
        self._formulation = formulation
        self._instance = instance
        self._limit = limit_bytes
        self._deadline = deadline
        self._should_stop = should_stop
        self._costs = CostTables(instance)
        self._weights = Weights(1.0, instance.alpha)
        self._own = self._costs.weighted(self._weights)
        self._peaks: dict[Choice, int] = {}
        self.least_needed_bytes: int | None = None
        self.compared = 0

    def run(self, starts: Sequence[Choice]) -> Choice | None:
        """The best plan found that fits; None if none was. Where there are few plans in all, they
        are looked at from the cheapest on, so that none is better."""
        sizes = [len(memory) for memory in self._costs.memory]
        if math.prod(sizes) <= FEW_PLANS:
            cheapest_first = sorted(itertools.product(*map(range, sizes)), key=self._objective)
            for cheapest in cheapest_first:
                if self._excess_bytes(cheapest) <= 0:
                    self.compared = len(cheapest_first)
                    return cheapest
                if self._is_over():
                    break
        fitting = []
        for start in dict.fromkeys(starts):
            choice = self._made_to_fit(start)
            if choice is not None:
                fitting.append(self._improved(choice))
            if self._is_over():
                break
        return min(fitting, key=self._objective, default=None)

    def peak_bytes(self, choice: Choice) -> int:
        """The predicted peak of a plan."""
        if choice not in self._peaks:
            self._peaks[choice] = predicted_peak_bytes(self._formulation, choice)
        return self._peaks[choice]

    def _is_over(self) -> bool:
        return time.monotonic() >= self._deadline or self._should_stop()

    def _kept_bytes(self, choice: Choice) -> int:
        return sum(int(sizes[k]) for sizes, k in zip(self._costs.memory, choice, strict=True))

    def _excess_bytes(self, choice: Choice) -> int:
        needed = max(self._kept_bytes(choice), self.peak_bytes(choice))
        if self.least_needed_bytes is None or needed < self.least_needed_bytes:
            self.least_needed_bytes = needed
        return needed - self._limit

    def _objective(self, choice: Choice) -> float:
        return totals(self._instance, choice).objective(self._instance.alpha)

    def _made_to_fit(self, choice: Choice) -> Choice | None:
        excess = self._excess_bytes(choice)
        for _ in range(MOST_SWEEPS):
            before = excess
            for v, k in self._changes():
                if excess <= 0:
                    return choice
                if self._is_over():
                    return None
                changed = (*choice[:v], k, *choice[v + 1 :])
                found = self._excess_bytes(changed)
                if found < excess:
                    choice, excess = changed, found
            if excess == before:
                break
        return choice if excess <= 0 else None

    def _changes(self) -> Iterator[tuple[int, int]]:
        """Each operator with each of its strategies."""
        for v, sizes in enumerate(self._costs.memory):
            yield from ((v, k) for k in range(len(sizes)))

    def _improved(self, choice: Choice) -> Choice:
        for _ in range(MOST_SWEEPS):
            before = choice
            for v in range(len(choice)):
                choice = self._improved_at(choice, v)
                if self._is_over():
                    return choice
            if choice == before:
                break
        return choice

    def _improved_at(self, choice: Choice, v: int) -> Choice:
        """With the cheapest strategy of one operator that fits."""
        value = self._own[v].copy()
        for w in self._costs.pairs[v]:
            value += self._costs.weighted_pair(self._weights, v, w)[:, choice[w]]
        for k in value.argsort(kind="stable").tolist():
            if value[k] >= value[choice[v]]:
                break
            changed = (*choice[:v], k, *choice[v + 1 :])
            if self._kept_bytes(changed) <= self._limit and self.peak_bytes(changed) <= self._limit:
                return changed
        return choice
