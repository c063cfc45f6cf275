"""The gain of a swap as measured: iteration times before and after, for the same work.

Stages may have become slower or faster in between. Where their times have moved by more than their
noise, the older plan would not take any more what it took. With its orders kept, an iteration is a
longest path of durations, so that it changes by no more than the duration that changes most, and
by no less than the one that changes least: that is what is sure. In between we expect what the
bound of arrival, work and return says (`_bound_ns`), and half the distance to what is sure counts
as noise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import hypot
from statistics import fmean
from typing import Any

from planner.following.estimates import (
    LEAST_SAMPLES,
    Estimates,
    Key,
    estimate,
    estimates_from_document,
    estimates_of,
    estimates_to_document,
)
from planner.following.telemetry import (
    COMPUTE_TIMES,
    ITERATION_NS,
    PLAN_VERSION,
    TIMES,
    Sample,
)
from planner.pipeline.problem import PipelineProblem

MOVED_DEVIATIONS, LEAST_MOVE = 3.0, 0.005
"""A time has moved where it differs by more than so many standard errors and by such a share."""


@dataclass(frozen=True, slots=True)
class Period:
    """Some iterations under one plan: the median time of one, its relative standard error, and the
    times of stages meanwhile."""

    iteration_ns: float
    noise: float
    times: Estimates


@dataclass(frozen=True, slots=True)
class Before:
    """What ran before a version: the iterations under the `version` before it."""

    version: int
    period: Period

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        own = self.period
        return {
            "version": self.version,
            "iteration_ns": own.iteration_ns,
            "noise": own.noise,
            "times": estimates_to_document(own.times),
        }

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> Before:
        """What `to_document` wrote."""
        times = estimates_from_document(document.get("times", {}))
        return Before(
            document["version"], Period(document["iteration_ns"], document["noise"], times)
        )


def period(
    samples: Iterable[Sample],
    counts: Callable[[int], bool],
    version: int | None = None,
) -> Period | None:
    """The iterations that count; None where too few say how long they took.

    With `version` those are left out that say that they ran another one.
    """
    own = [
        sample
        for sample in samples
        if counts(sample.iteration)
        and (version is None or sample.values.get(PLAN_VERSION, version) == version)
    ]
    times: dict[int, list[float]] = defaultdict(list)
    for sample in own:
        if ITERATION_NS in sample.values:
            times[sample.iteration].append(sample.values[ITERATION_NS])
    if len(times) < LEAST_SAMPLES:
        return None
    # Ranks wait for each other, so the longest of what they report is the iteration.
    longest = [(iteration, max(reported)) for iteration, reported in sorted(times.items())]
    found = estimate(longest)
    if found.value <= 0:
        return None
    stages = {key: time for key, time in estimates_of(own).items() if key[1] in TIMES}
    return Period(found.value, found.noise, stages)


def measured_gain(problem: PipelineProblem, before: Period, after: Period) -> tuple[float, float]:
    """The share of the iteration that the swap saved, and the standard error of that share.

    Of a pipeline whose stages have changed meanwhile, two errors reach as far as what is sure.
    """
    moved = _moved(before.times, after.times)
    least, most = min([1.0, *moved.values()]), max([1.0, *moved.values()])
    earlier = {key: before.times[key].value for key in moved}
    later = {key: after.times[key].value for key in moved}
    expected = _bound_ns(problem, {**earlier, **later}) / _bound_ns(problem, earlier)
    expected = min(most, max(least, expected))
    gains = [
        1 - after.iteration_ns / (before.iteration_ns * factor)
        for factor in (expected, least, most)
    ]
    gain, *sure = gains
    unsure = max(abs(end - gain) for end in sure) / 2
    return gain, hypot((1 - gain) * hypot(before.noise, after.noise), unsure)


def _moved(before: Estimates, after: Estimates) -> dict[Key, float]:
    """The factors of the times that have moved."""
    moved = {}
    for key in before.keys() & after.keys():
        old, new = before[key], after[key]
        if old.value > 0:
            change = new.value / old.value - 1
            if abs(change) > max(LEAST_MOVE, MOVED_DEVIATIONS * hypot(old.noise, new.noise)):
                moved[key] = 1 + change
    return moved


def _bound_ns(problem: PipelineProblem, times: Mapping[Key, float]) -> float:
    """What no schedule can go below: a device's first micro-batch has to arrive, its work has to be
    done, and its last one has to return. Means over micro-batches, with `times` in their place."""

    def mean(stage: int, name: str) -> float:
        return times.get((stage, name), fmean(getattr(problem.stages[stage], name)))

    arrival = back = 0.0
    first: dict[int, float] = {}
    work: dict[int, float] = defaultdict(float)
    for s, stage in enumerate(problem.stages):
        # A device with several stages counts from its earliest one.
        first.setdefault(stage.device, arrival + back)
        work[stage.device] += sum(mean(s, name) for name in COMPUTE_TIMES)
        arrival += mean(s, "forward_ns")
        back += mean(s, "backward_input_ns")
    return max(first[d] + problem.micro_batches * work[d] for d in work)
