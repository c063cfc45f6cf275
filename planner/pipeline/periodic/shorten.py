"""The same iteration with another number of micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import lcm

from planner.pipeline.problem import PipelineProblem, Stage, Transfer

Values = Callable[[tuple[int, ...]], tuple[int, ...]]
"""A quantity's values of all micro-batches, made into others."""
SMALL_PERIODS = 12


def with_micro_batches(problem: PipelineProblem, count: int) -> PipelineProblem:
    """The problem with `count` micro-batches, each like its first one."""

    def repeated(values: tuple[int, ...]) -> tuple[int, ...]:
        return values[:1] * count

    return with_values(problem, count, repeated, repeated)


def with_values(
    problem: PipelineProblem, micro_batches: int, time: Values, size: Values
) -> PipelineProblem:
    """The problem with other values of so many micro-batches: `time` makes those in ns and `size`
    those in bytes. Epilogues and limits stay."""

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

    return replace(
        problem,
        micro_batches=micro_batches,
        stages=tuple(map(stage, problem.stages)),
        transfers=tuple(
            Transfer(time(hop.forward_ns), time(hop.backward_ns)) for hop in problem.transfers
        ),
    )


def short_count(problem: PipelineProblem) -> int | None:
    """How many micro-batches show fill, period and drain; None where that is not fewer.

    At least three times the number of stages; what is left out divides by 12 and by the number of
    micro-batches that the tightest device holds, which is the period where memory sets the pace.
    """
    depth, held = len(problem.stages), fewest_held(problem)
    unit = lcm(SMALL_PERIODS, held)
    if unit > 2 * depth:
        unit = held if SMALL_PERIODS < held <= 2 * depth else SMALL_PERIODS
    least = max(3 * depth, 2 * unit)
    if problem.micro_batches < least + unit:
        return None
    return least + (problem.micro_batches - least) % unit


def fewest_held(problem: PipelineProblem) -> int:
    """How many micro-batches the device with the tightest memory holds at once, at least 1."""
    held = [
        device.activation_memory_bytes // size
        for device, stages in zip(problem.devices, problem.stages_of_device, strict=True)
        if device.activation_memory_bytes is not None
        and (size := sum(problem.stages[s].activation_bytes[0] for s in stages)) > 0
    ]
    return max(1, min(held, default=1))
