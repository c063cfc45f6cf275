"""The same global batch in another number of micro-batches.

A micro-batch of r times the samples takes r times the memory. An operation that takes d takes

    d (f + (1 - f) r),

f being the share of its time that does not depend on the size: launches, latencies, small matrices
that do not fill the GPU. It is a straight line through d whose start is f d, the model of a
transfer's latency and rate applied to computation; two sizes measured give f.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from statistics import median

from planner.pipeline.periodic.shorten import with_micro_batches, with_values
from planner.pipeline.problem import PipelineProblem

MOST_GROWTH = 4
"""Micro-batches are not looked at beyond so many times as now."""


def typical_micro_batch(problem: PipelineProblem) -> PipelineProblem:
    """The problem with one micro-batch of mean times and largest sizes: where all are alike, their
    own."""

    def time(values: tuple[int, ...]) -> tuple[int, ...]:
        mean = round(sum(values) / len(values))
        return (max(mean, int(any(values))),)

    return with_values(problem, 1, time, lambda values: (max(values),))


def resized(one: PipelineProblem, ratio: Fraction, fixed_share: float) -> PipelineProblem:
    """A problem of one micro-batch with `ratio` times as many samples in it. Epilogues stay."""
    if ratio == 1:
        return one
    factor = fixed_share + (1 - fixed_share) * float(ratio)

    def time(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(max(1, round(value * factor)) if value else 0 for value in values)

    def size(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(ceil(value * ratio) for value in values)

    return with_values(one, one.micro_batches, time, size)


def in_micro_batches(
    one: PipelineProblem, count: int, number: int, fixed_share: float
) -> PipelineProblem:
    """The batch of `count` micro-batches like `one`, in `number` of them. Epilogues stay."""
    return with_micro_batches(resized(one, Fraction(count, number), fixed_share), number)


def numbers_for(micro_batches: int, micro_batch_size: int | None) -> list[int]:
    """Other numbers of micro-batches that keep the batch, as whole numbers of samples in each: the
    divisors of their product up to `MOST_GROWTH` times as many. Of samples that are not known
    (None), the divisors and the multiples of the number, as if a micro-batch could be divided."""
    if micro_batch_size is None:
        fewer = [n for n in range(1, micro_batches) if micro_batches % n == 0]
        return fewer + [micro_batches * k for k in range(2, MOST_GROWTH + 1)]
    samples = micro_batches * micro_batch_size
    most = min(samples, MOST_GROWTH * micro_batches)
    return [n for n in range(1, most + 1) if samples % n == 0 and n != micro_batches]


RULE_OF_THUMB = "number of micro-batches x ceil(slowest stage / median stage)"


def by_rule_of_thumb(micro_batches: int, stage_times_ns: Sequence[float]) -> int:
    """What `RULE_OF_THUMB` comes to; the number itself where most stages take no time."""
    usual = median(stage_times_ns)
    return micro_batches * (ceil(max(stage_times_ns) / usual) if usual else 1)
