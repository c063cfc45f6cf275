"""The same global batch in another number of micro-batches.

A micro-batch of r times the samples takes r times the memory. An operation that takes d takes

    d (f + (1 - f) r),

f being the share of its time that does not depend on the size: launches, latencies, small matrices
that do not fill the GPU. It is a straight line through d whose start is f d, the model of a
transfer's latency and rate applied to computation; two sizes measured give f.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from math import ceil

from planner.pipeline.problem import PipelineProblem, Stage, Transfer

Quantity = Callable[[tuple[int, ...]], tuple[int, ...]]

MOST_GROWTH = 4
"""Micro-batches are not looked at beyond so many times as now."""


def typical_micro_batch(problem: PipelineProblem) -> PipelineProblem:
    """The problem with one micro-batch of mean times and largest sizes: where all are alike, their
    own."""

    def time(values: tuple[int, ...]) -> tuple[int, ...]:
        mean = round(sum(values) / len(values))
        return (max(mean, int(any(values))),)

    return _changed(problem, time, lambda values: (max(values),), 1)


def resized(one: PipelineProblem, ratio: Fraction, fixed_share: float) -> PipelineProblem:
    """A problem of one micro-batch with `ratio` times as many samples in it. Epilogues stay."""
    factor = fixed_share + (1 - fixed_share) * float(ratio)

    def time(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(max(1, round(value * factor)) if value else 0 for value in values)

    def size(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(ceil(value * ratio) for value in values)

    return _changed(one, time, size, one.micro_batches)


def numbers_for(micro_batches: int, micro_batch_size: int) -> list[int]:
    """Other numbers of micro-batches that keep the batch, as whole numbers of samples in each: the
    divisors of their product up to `MOST_GROWTH` times as many."""
    samples = micro_batches * micro_batch_size
    most = min(samples, MOST_GROWTH * micro_batches)
    return [n for n in range(1, most + 1) if samples % n == 0 and n != micro_batches]


def _changed(
    problem: PipelineProblem, time: Quantity, size: Quantity, micro_batches: int
) -> PipelineProblem:
    def stage(own: Stage) -> Stage:
        return replace(
            own,
            forward_ns=time(own.forward_ns),
            backward_input_ns=time(own.backward_input_ns),
            backward_weight_ns=time(own.backward_weight_ns),
            offload_ns=time(own.offload_ns),
            reload_ns=time(own.reload_ns),
            activation_bytes=size(own.activation_bytes),
            weight_grad_bytes=size(own.weight_grad_bytes),
            backward_workspace_bytes=size(own.backward_workspace_bytes),
            offload_bytes=size(own.offload_bytes),
        )

    def hops(transfers: Iterable[Transfer]) -> tuple[Transfer, ...]:
        return tuple(Transfer(time(hop.forward_ns), time(hop.backward_ns)) for hop in transfers)

    return replace(
        problem,
        micro_batches=micro_batches,
        stages=tuple(map(stage, problem.stages)),
        transfers=hops(problem.transfers),
    )
