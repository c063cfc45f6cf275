"""Classic schedules of a problem, timed without anything compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.errors import OrderError
from planner.pipeline.classic.placement import chunks_per_device, is_interleaved, is_one_chunk
from planner.pipeline.classic.sequences import (
    gpipe,
    interleaved_one_forward_one_backward,
    one_forward_one_backward,
)
from planner.pipeline.objective import objective_ns
from planner.pipeline.orders import Orders
from planner.pipeline.problem import PipelineProblem, Stage
from planner.pipeline.timing import time_orders


def classic_times(problem: PipelineProblem) -> dict[str, int]:
    """The objective in ns of GPipe and 1F1B, or of interleaved 1F1B, under the limits of memory;
    those that do not fit are left out, as are placements that none of them is for.

    They run the whole backward as one operation, as their publications do.
    """
    fused = replace(problem, stages=tuple(_fused(stage) for stage in problem.stages))
    makers: dict[str, Callable[[PipelineProblem], Orders]] = {}
    if is_one_chunk(problem):
        makers = {"GPipe": gpipe, "1F1B": one_forward_one_backward}
    elif is_interleaved(problem):
        chunks = chunks_per_device(problem) or 1
        makers["interleaved 1F1B"] = lambda own: interleaved_one_forward_one_backward(own, chunks)
    times = {}
    for name, make in makers.items():
        try:
            times[name] = objective_ns(fused, time_orders(fused, make(fused)))
        except OrderError:
            continue
    return times


def _fused(stage: Stage) -> Stage:
    """W right after its B, which frees everything at its end and needs no more than both."""
    micro_batches = range(len(stage.forward_ns))
    return replace(
        stage,
        backward_input_ns=tuple(
            stage.backward_input_ns[m] + stage.backward_weight_ns[m] for m in micro_batches
        ),
        backward_weight_ns=(0,) * len(stage.forward_ns),
        backward_workspace_bytes=tuple(stage.backward_allocation_bytes(m) for m in micro_batches),
    )
