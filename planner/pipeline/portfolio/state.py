"""What the steps of a solve share: candidates, bounds, the best schedules and the time left."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf

from planner.errors import OrderError
from planner.pipeline.bounds.lower_bounds import Bound
from planner.pipeline.classic.rows import ClassicRow
from planner.pipeline.incumbents import Incumbents
from planner.pipeline.pace import ANSWER_VERIFICATIONS, Closing, Pace
from planner.pipeline.portfolio.trace import Trace
from planner.pipeline.schedule import Schedule
from planner.pipeline.spec import Candidate, PipelineSpec
from planner.progress import Reporter, StopCheck

CLOSING_S = 0.5
"""Kept back from the time limit for the last verification and for writing the answer, beside what
grows with the operations."""
MOST_CLOSING = 2 / 3
"""Of a time limit, the most that is kept back."""


class SolveState:
    """One solve: the candidates that are feasible, their bounds and the best schedules so far."""

    def __init__(
        self,
        spec: PipelineSpec,
        reporter: Reporter,
        asked_to_stop: StopCheck,
        time_left_s: float | None,
    ) -> None:
        self.spec = spec
        self.options = spec.options
        self.reporter = reporter
        self.started = time.monotonic()
        self.limit_s = spec.options.time_limit_s if time_left_s is None else time_left_s
        self.asked_to_stop = asked_to_stop
        self.trace = Trace(self.started)
        self.pace = Pace()
        self.replaces_running = False
        """Whether the answer is compared with the plan of a run, which takes time at the end."""
        self.is_brief = False
        """Whether all time goes to the answer: no classic rows, no jitter, nothing reported."""
        self.candidates: list[Candidate] = []
        self.bounds: dict[str, list[Bound]] = {}
        self.rows_for_later: list[tuple[Candidate, list[ClassicRow]]] = []
        self.incumbents = Incumbents(
            reporter, self.trace, self.pace, self.must_drop, bounds=self.bounds
        )

    @property
    def is_reproducible(self) -> bool:
        """Whether the answer may depend on nothing but the spec, hence not on the clock."""
        return self.options.search_iterations is not None

    @property
    def deadline(self) -> float:
        """When the steps have to end (of `time.monotonic`), for closing to end within the limit.

        It moves with what verification turns out to take on this machine.
        """
        closing_s = max(
            (
                self.pace.closing_s(c.problem, compared=self.replaces_running)
                for c in self.spec.candidates
            ),
            default=0.0,
        )
        closing_s = min(closing_s, MOST_CLOSING * self.limit_s)
        return self.started + self.limit_s - min(CLOSING_S, self.limit_s / 10) - closing_s

    def search_threads(self) -> int:
        """Chains of the search. Their number decides the answer of a reproducible solve, which
        therefore runs all of them, if need be one after the other."""
        return self.options.threads if self.is_reproducible else self.options.threads_here()

    def seconds_left(self) -> float:
        """Until the deadline."""
        return max(0.0, self.deadline - time.monotonic())

    def should_stop(self) -> bool:
        """Whether the client asked to stop or the time is up."""
        return self.asked_to_stop() or time.monotonic() >= self.deadline

    def must_drop(self) -> bool:
        """Whether a schedule that is being timed or verified has to be dropped: the client wants
        no more, or there is only time to write down what there is already."""
        if self.asked_to_stop():
            return True
        if self.is_reproducible:
            return False
        largest_s = ANSWER_VERIFICATIONS * self._largest_verify_s()
        return time.monotonic() >= self.started + self.limit_s - largest_s

    def must_drop_more(self) -> bool:
        """Whether there is an answer, and no time to make another one."""
        return self.incumbents.best is not None and self.must_drop()

    def closing(self, candidate: Candidate) -> Closing:
        """The time for what comes after the steps, with the best schedule of this candidate."""
        ends = inf if self.is_reproducible else self.started + self.limit_s
        return Closing(self.pace.verify_s(candidate.problem), ends, self.asked_to_stop)

    def _largest_verify_s(self) -> float:
        return max((self.pace.verify_s(c.problem) for c in self.spec.candidates), default=0.0)

    def stop_check(self, share: float) -> StopCheck:
        """A check that also says to stop when this share of the remaining time is used up. Where
        the answer has to be reproducible there are no shares."""
        if self.is_reproducible:
            return self.should_stop
        ends = time.monotonic() + share * self.seconds_left()
        return lambda: time.monotonic() >= ends or self.should_stop()

    def lower_bound(self, candidate: Candidate) -> Bound:
        """The best proven bound of one candidate."""
        return self.bounds[candidate.placement][0]

    def add_bounds(self, candidate: Candidate, bounds: list[Bound]) -> None:
        """More proven bounds of one candidate; of two with a name the better is kept."""
        best: dict[str, Bound] = {}
        for bound in [*self.bounds.get(candidate.placement, []), *bounds]:
            if bound.name not in best or best[bound.name].value_ns < bound.value_ns:
                best[bound.name] = bound
        self.bounds[candidate.placement] = sorted(
            best.values(), key=lambda bound: (-bound.value_ns, bound.name)
        )
        if all(c.placement in self.bounds for c in self.candidates):
            # No placement can do better than the least of their bounds.
            least = min((self.lower_bound(c) for c in self.candidates), key=lambda b: b.value_ns)
            self.reporter.bound(least.name, least.value_ns)
            self.trace.bounded(least.value_ns)

    def is_settled(self, candidate: Candidate) -> bool:
        """Whether this candidate cannot improve the answer by more than the asked gap."""
        best = self.incumbents.best
        if best is None:
            return False
        bound = self.lower_bound(candidate).value_ns
        return bound >= best.objective_ns * (1 - self.options.mip_gap)

    def is_done(self) -> bool:
        """Whether every candidate is settled, or time or patience is over."""
        return self.should_stop() or all(map(self.is_settled, self.candidates))

    def promising(self) -> list[Candidate]:
        """The candidates that may still improve the answer, the best so far first."""
        found = [
            (best.objective_ns, position, candidate)
            for position, candidate in enumerate(self.candidates)
            if (best := self.incumbents.best_of(candidate)) is not None
            and not self.is_settled(candidate)
        ]
        return [candidate for _, _, candidate in sorted(found, key=lambda entry: entry[:2])]

    def offer(self, candidate: Candidate, make: Callable[[], Schedule], found_by: str) -> None:
        """Make a schedule and offer it; where the search for one was given up, go on without."""
        try:
            self.incumbents.offer(candidate, make(), found_by)
        except OrderError as error:
            self.reporter.log(f"{found_by}: {error}")
