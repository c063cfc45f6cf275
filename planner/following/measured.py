"""The gain of a swap as measured: iteration times before and after, for the same work.

Stages may have become slower or faster in between. So times are compared per work: what the
slowest device computes in an iteration, from the stages' own times, before and after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import sqrt
from statistics import median

from planner.following.estimates import LEAST_SAMPLES, estimate, estimates_of
from planner.following.telemetry import COMPUTE_TIMES, ITERATION_NS, PLAN_VERSION, Sample
from planner.pipeline.problem import PipelineProblem


@dataclass(frozen=True, slots=True)
class Period:
    """Some iterations under one plan: the median time of one, its relative standard error, and the
    slowest device's computation (None where not every stage reports it)."""

    iteration_ns: float
    noise: float
    work_ns: float | None


@dataclass(frozen=True, slots=True)
class Before(Period):
    """What ran before a version: the iterations under the `version` before it."""

    version: int


def period(
    problem: PipelineProblem,
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
    return Period(found.value, found.noise, _work_ns(problem, own))


def measured_gain(before: Before, after: Period) -> tuple[float, float]:
    """The share of the iteration that the swap saved, and the standard error of that share."""
    expected_ns = before.iteration_ns
    if before.work_ns and after.work_ns:
        expected_ns *= after.work_ns / before.work_ns
    gain = 1 - after.iteration_ns / expected_ns
    return gain, (1 - gain) * sqrt(before.noise**2 + after.noise**2)


def _work_ns(problem: PipelineProblem, samples: Iterable[Sample]) -> float | None:
    """F, B and W of the slowest device, for all of its stages."""
    estimates = estimates_of(samples)
    totals = [0.0] * len(problem.devices)
    for s, stage in enumerate(problem.stages):
        for name in COMPUTE_TIMES:
            own = estimates.get((s, name))
            if own is None and median(getattr(stage, name)):
                return None
            totals[stage.device] += 0.0 if own is None else own.value
    return max(totals)
