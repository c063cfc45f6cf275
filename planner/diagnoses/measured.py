"""A problem with the times that were measured in place of those that were planned."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from statistics import fmean

from planner.diagnoses.telemetry import Profile, StageProfile
from planner.pipeline.problem import LARGEST_VALUE, PipelineProblem, Stage


def with_measured_times(problem: PipelineProblem, profile: Profile) -> PipelineProblem:
    """Each stage that reported, with its medians; where micro-batches differ, their times are
    scaled so that their mean is the measured one."""
    return replace(
        problem,
        stages=tuple(
            _measured(stage, profile.stages[s]) if s in profile.stages else stage
            for s, stage in enumerate(problem.stages)
        ),
    )


def slowdown(stage: Stage, profile: StageProfile) -> float | None:
    """Measured computation of a micro-batch over the planned one; None if either is unknown."""
    planned_ns = planned_compute_ns(stage)
    if not planned_ns or profile.compute_ns is None:
        return None
    return profile.compute_ns / planned_ns


def planned_compute_ns(stage: Stage) -> float:
    """F + B + W of a micro-batch, the mean over micro-batches."""
    return (
        fmean(stage.forward_ns) + fmean(stage.backward_input_ns) + fmean(stage.backward_weight_ns)
    )


def _measured(stage: Stage, profile: StageProfile) -> Stage:
    backward_ns, weight_ns = _backward(stage, profile)
    return replace(
        stage,
        forward_ns=_scaled(stage.forward_ns, profile.forward_ns),
        backward_input_ns=_scaled(stage.backward_input_ns, backward_ns),
        # An operation must not vanish: orders have it.
        backward_weight_ns=tuple(
            max(1, new) if old else 0
            for old, new in zip(
                stage.backward_weight_ns,
                _scaled(stage.backward_weight_ns, weight_ns),
                strict=True,
            )
        ),
        offload_ns=_scaled(stage.offload_ns, profile.offload_ns),
        reload_ns=_scaled(stage.reload_ns, profile.reload_ns),
    )


def _backward(stage: Stage, profile: StageProfile) -> tuple[int | None, int | None]:
    """B and W, divided as the plan has them."""
    backward_ns, weight_ns = profile.backward_input_ns, profile.backward_weight_ns
    if backward_ns is None:
        return None, weight_ns
    if not any(stage.backward_weight_ns):
        return backward_ns + (weight_ns or 0), 0
    if weight_ns:
        return backward_ns, weight_ns
    # The run has the backward in one operation.
    planned = fmean(stage.backward_input_ns) + fmean(stage.backward_weight_ns)
    weight_ns = round(backward_ns * fmean(stage.backward_weight_ns) / planned)
    return backward_ns - weight_ns, weight_ns


def _scaled(times_ns: tuple[int, ...], measured_ns: int | None) -> tuple[int, ...]:
    if measured_ns is None:
        return times_ns
    if len(set(times_ns)) == 1:
        return (measured_ns,) * len(times_ns)
    factor = measured_ns / fmean(times_ns)
    return tuple(min(LARGEST_VALUE, ceil(time_ns * factor)) for time_ns in times_ns)
