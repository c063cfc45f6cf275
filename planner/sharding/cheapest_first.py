"""Plans one after another, the cheapest first, without any solver.

Operators are eliminated one by one as for the optimum (`elimination.py`), and the tables are kept:
they say of any choice for the operators eliminated later what the best choice for all others adds.
Best-first search with that never looks at a choice that leads to no plan, so that the next plan
takes a step per operator (the k best plans: Lawler 1972, over bucket elimination: Dechter 1999).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from planner.sharding.elimination_problem import Costs, Problem, Scope
from planner.sharding.instance import Instance

Choice = tuple[int, ...]
Ranked = tuple[list[float], list[int]]
"""What each strategy of an operator adds to the least objective, the cheapest first."""

MOST_ENTRIES = 10_000_000
"""Of all tables together."""
MOST_STEPS = 50_000
"""Of the search, of which most lead to no plan where little memory can be kept."""
STEPS_BETWEEN_CHECKS = 64


class _Waiting(NamedTuple):
    """The plans that have the choices of `plan` for the operators before `place`, and at `place`
    the strategy of this rank or a later one. `value` is the least objective among them; of equals
    those that can keep least come first."""

    value: float
    kept_bytes: int
    number: int
    place: int
    rank: int
    plan: Choice
    before: float
    kept_before: int


class CheapestFirst:
    """All plans of an instance that keep no more than its memory limit, in order of objective.

    `penalties` are added to what each strategy of each operator costs, so that plans come in the
    order of both together; they end early where it is told to stop or takes more than `most_steps`.
    Raises `TooLarge` where the tables would not fit or it is told to stop before.
    """

    def __init__(
        self,
        instance: Instance,
        should_stop: Callable[[], bool],
        penalties: Sequence[Costs] = (),
        most_entries: int = MOST_ENTRIES,
        most_steps: int = MOST_STEPS,
    ) -> None:
        problem = Problem(instance, most_entries, should_stop)
        problem.factors += [((v,), penalty) for v, penalty in enumerate(penalties)]
        self._should_stop = should_stop
        self._most_steps = most_steps
        self._least = 0.0
        self._steps: list[tuple[int, Scope]] = problem.steps[::-1]
        self._tables = self._eliminated(problem)[::-1]
        self._memory = problem.memory
        leasts = [int(self._memory[v].min()) for v, _ in reversed(self._steps)]
        self._least_from = [*accumulate(leasts, initial=0)][::-1]
        self._limit = instance.device_memory_bytes
        self._ranks: dict[tuple[int, Choice], Ranked] = {}
        self._waiting: list[_Waiting] = []
        self._pushed = 0

    def __iter__(self) -> Iterator[tuple[float, Choice]]:
        """Each plan with its objective, penalties included."""
        start = [0] * len(self._steps)
        first = self._completed(start, 0, self._least, 0)
        if first is not None:
            yield first
        for step in range(self._most_steps):
            is_stopped = step % STEPS_BETWEEN_CHECKS == 0 and self._should_stop()
            if not self._waiting or is_stopped:
                return
            found = self._next_of(heapq.heappop(self._waiting))
            if found is not None:
                yield found

    @property
    def least_left(self) -> float:
        """No plan that has not come yet costs less; infinite where there is none."""
        return self._waiting[0].value if self._waiting else math.inf

    def _eliminated(self, problem: Problem) -> list[Costs]:
        """Per step what each strategy costs more than the best one, by those of the scope."""
        place = {v: number for number, (v, _) in enumerate(problem.steps)}
        buckets: list[list[tuple[Scope, Costs]]] = [[] for _ in problem.steps]
        for factor in problem.factors:
            buckets[min(place[v] for v in factor[0])].append(factor)
        tables = []
        for (v, scope), mine in zip(problem.steps, buckets, strict=True):
            problem.spend(0)
            table = problem.added_up(mine, (*scope, v))
            least = table.min(axis=-1)
            tables.append(table - least[..., np.newaxis])
            if scope:
                buckets[min(place[u] for u in scope)].append((scope, least))
            else:
                self._least += float(least)
        return tables

    def _next_of(self, waiting: _Waiting) -> tuple[float, Choice] | None:
        """The best plan of those that wait; all others of them wait again."""
        choice = list(waiting.plan)
        place, rank = waiting.place, waiting.rank
        regrets, strategies = self._ranked(place, choice)
        self._wait(waiting.plan, place, rank + 1, waiting.before, waiting.kept_before)
        v = self._steps[place][0]
        choice[v] = strategies[rank]
        kept = waiting.kept_before + int(self._memory[v][choice[v]])
        return self._completed(choice, place + 1, waiting.before + regrets[rank], kept)

    def _completed(
        self, choice: list[int], place: int, value: float, kept: int
    ) -> tuple[float, Choice] | None:
        """The best plan with these choices before `place`; None where it would keep too much."""
        passed = []
        while place < len(self._steps):
            regrets, strategies = self._ranked(place, choice)
            rank = self._fitting_rank(place, 0, strategies, kept)
            if rank == len(strategies) or regrets[rank] > 0:
                passed.append((place, rank, kept))
                break
            passed.append((place, rank + 1, kept))
            v = self._steps[place][0]
            choice[v] = strategies[rank]
            kept += int(self._memory[v][choice[v]])
            place += 1
        plan = tuple(choice)
        for other, rank, kept_before in passed:
            self._wait(plan, other, rank, value, kept_before)
        return (value, plan) if place == len(self._steps) else None

    def _wait(self, plan: Choice, place: int, rank: int, before: float, kept: int) -> None:
        regrets, strategies = self._ranked(place, plan)
        rank = self._fitting_rank(place, rank, strategies, kept)
        if rank == len(strategies):
            return
        own = int(self._memory[self._steps[place][0]][strategies[rank]])
        least = kept + own + self._least_from[place + 1]
        self._pushed += 1
        value = before + regrets[rank]
        heapq.heappush(
            self._waiting,
            _Waiting(value, least, self._pushed, place, rank, plan, before, kept),
        )

    def _fitting_rank(self, place: int, rank: int, strategies: list[int], kept: int) -> int:
        """The first from `rank` on that leaves room for the least of all that come later."""
        if self._limit is None:
            return rank
        memory = self._memory[self._steps[place][0]]
        room = self._limit - kept - self._least_from[place + 1]
        while rank < len(strategies) and memory[strategies[rank]] > room:
            rank += 1
        return rank

    def _ranked(self, place: int, choice: Sequence[int]) -> Ranked:
        v, scope = self._steps[place]
        chosen = tuple(choice[u] for u in scope)
        key = place, chosen
        if key not in self._ranks:
            regrets = self._tables[place][chosen]
            order = np.lexsort((self._memory[v], regrets))
            self._ranks[key] = regrets[order].tolist(), order.tolist()
        return self._ranks[key]
