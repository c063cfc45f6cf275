"""The problem of a run as it is measured: the run's own problem with estimates in place of its
times and sizes.

A quantity that nobody reports stays as it is. One that is reported moves all micro-batches of its
stage by one factor, so that micro-batches of unequal length keep their proportions and the median
of them is the estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import floor, sqrt
from statistics import median

from planner.following.estimates import Estimate, Estimates, Key
from planner.following.telemetry import COMPUTE_TIMES, MEMORY_DELTAS, OFFLOAD_TIMES, TRANSFER_TIMES
from planner.pipeline.problem import LARGEST_VALUE, Device, PipelineProblem, Stage, Transfer
from planner.pipeline.total_time import check_total_time

FORWARD_DELTA, BACKWARD_DELTA = MEMORY_DELTAS
WEIGHT = "backward_weight_ns"
FORWARD_TRANSFER, BACKWARD_TRANSFER = TRANSFER_TIMES


def fresh_problem(
    base: PipelineProblem,
    estimates: Estimates,
    memory_headroom: float = 0.0,
    limit_changes: Mapping[int, int] | None = None,
) -> PipelineProblem:
    """The problem with the estimates, each activation memory less `memory_headroom` (a share).

    `limit_changes` are bytes, by device, by which limits have changed since `base` was made.
    Raises `SpecError` where the estimates are too large for a schedule's instants.
    """
    values = {key: estimate.value for key, estimate in believed(estimates).items()}
    changes = limit_changes or {}
    problem = replace(
        base,
        devices=tuple(
            _with_limit(device, changes.get(d, 0), memory_headroom)
            for d, device in enumerate(base.devices)
        ),
        stages=tuple(_stage(stage, s, values) for s, stage in enumerate(base.stages)),
        transfers=tuple(
            Transfer(
                _scaled(hop.forward_ns, values.get((s, FORWARD_TRANSFER))),
                _scaled(hop.backward_ns, values.get((s, BACKWARD_TRANSFER))),
            )
            for s, hop in enumerate(base.transfers)
        ),
    )
    check_total_time(problem)
    return problem


def disbelieved(estimates: Estimates) -> dict[int, str]:
    """By stage why its memory deltas are not believed. Those of F and B are believed together: what
    is held until W is their sum, and means nothing with one of them measured and one planned."""
    found = {}
    for s, name in estimates:
        if name not in MEMORY_DELTAS:
            continue
        forward = estimates.get((s, FORWARD_DELTA))
        if forward is None:
            found[s] = f"{BACKWARD_DELTA} is reported without {FORWARD_DELTA}"
        elif forward.value <= 0:
            found[s] = f"{FORWARD_DELTA} is {forward.value:g}, and a forward pass keeps something"
    return found


def believed(estimates: Estimates) -> dict[Key, Estimate]:
    """The estimates without memory deltas that are not believed."""
    without = disbelieved(estimates)
    return {
        key: own
        for key, own in estimates.items()
        if key[0] not in without or key[1] not in MEMORY_DELTAS
    }


def planned(problem: PipelineProblem, key: Key) -> float | None:
    """What the problem says of a quantity that telemetry may report: the median micro-batch. None
    where it says nothing."""
    s, name = key
    stage = problem.stages[s]
    if name in COMPUTE_TIMES:
        all_ns: tuple[int, ...] = getattr(stage, name)
        times_ns = [time_ns for time_ns in all_ns if time_ns or name != WEIGHT]
        return median(times_ns) if times_ns else None
    if name in OFFLOAD_TIMES:
        copies_ns: tuple[int, ...] = getattr(stage, name)
        return median(copies_ns) if any(stage.offload_bytes) else None
    if name == FORWARD_DELTA:
        return median(stage.activation_bytes)
    if name == BACKWARD_DELTA:
        return median(stage.late_bytes(m) - a for m, a in enumerate(stage.activation_bytes))
    if name in (FORWARD_TRANSFER, BACKWARD_TRANSFER) and s < len(problem.transfers):
        hops_ns: tuple[int, ...] = getattr(problem.transfers[s], name.removeprefix("transfer_"))
        return median(hops_ns)
    return None


def stage_noise(problem: PipelineProblem, estimates: Estimates) -> tuple[float, ...]:
    """Per stage the relative standard error of F, B and W together; 0 for a stage without
    estimates. Errors of the three are independent, so their squares add."""
    noise = []
    for s, stage in enumerate(problem.stages):
        own = [estimates[s, name] for name in COMPUTE_TIMES if (s, name) in estimates]
        total_ns = median(stage.compute_ns(m) for m in range(problem.micro_batches))
        error_ns = sqrt(sum(estimate.error**2 for estimate in own))
        noise.append(error_ns / total_ns if total_ns else 0.0)
    return tuple(noise)


def limit_changes(
    problem: PipelineProblem, first: Mapping[int, int], newest: Mapping[int, int]
) -> dict[int, int]:
    """By device how many bytes its limit has changed by, from limits by stage; of several stages
    of a device the one that lost most counts."""
    changes: dict[int, int] = {}
    for s, limit in newest.items():
        device, change = problem.stages[s].device, limit - first.get(s, limit)
        changes[device] = min(change, changes.get(device, change))
    return changes


def _with_limit(device: Device, change: int, headroom: float) -> Device:
    limit = device.activation_memory_bytes
    if limit is None:
        return device
    left = max(0, floor((limit + change) * (1 - headroom)))
    return replace(device, activation_memory_bytes=min(left, LARGEST_VALUE))


def _stage(stage: Stage, s: int, values: Mapping[Key, float]) -> Stage:
    backward_ns = values.get((s, "backward_input_ns"))
    weight_ns = values.get((s, WEIGHT))
    splits = any(stage.backward_weight_ns)
    if not splits and backward_ns is not None and weight_ns is not None:
        # The plan has no W: who measures one runs it within B.
        backward_ns += weight_ns
    activation = _activation(stage, values.get((s, FORWARD_DELTA)))
    offloads = any(stage.offload_bytes)
    return replace(
        stage,
        forward_ns=_scaled(stage.forward_ns, values.get((s, "forward_ns"))),
        backward_input_ns=_scaled(stage.backward_input_ns, backward_ns),
        backward_weight_ns=_kept_apart(stage, weight_ns) if splits else stage.backward_weight_ns,
        activation_bytes=activation,
        weight_grad_bytes=_weight_grad(stage, activation, values.get((s, BACKWARD_DELTA))),
        offload_bytes=tuple(
            min(new, moved * new // old if old else 0)
            for moved, old, new in zip(
                stage.offload_bytes, stage.activation_bytes, activation, strict=True
            )
        ),
        offload_ns=_scaled(stage.offload_ns, values.get((s, "offload_ns")) if offloads else None),
        reload_ns=_scaled(stage.reload_ns, values.get((s, "reload_ns")) if offloads else None),
    )


def _scaled(times: tuple[int, ...], typical: float | None) -> tuple[int, ...]:
    """The values by one factor, so that their median becomes `typical`; None leaves them."""
    if typical is None:
        return times
    middle = median(times)
    if middle == 0 or len(set(times)) == 1:
        return (max(0, round(typical)),) * len(times)
    return tuple(max(0, round(value * typical / middle)) for value in times)


def _kept_apart(stage: Stage, typical: float | None) -> tuple[int, ...]:
    """The times of W, which stays an operation of its own exactly where it was one."""
    if typical is None:
        return stage.backward_weight_ns
    middle = median(time_ns for time_ns in stage.backward_weight_ns if time_ns)
    return tuple(
        max(1, round(time_ns * typical / middle)) if time_ns else 0
        for time_ns in stage.backward_weight_ns
    )


def _activation(stage: Stage, forward_delta: float | None) -> tuple[int, ...]:
    """What F leaves allocated is what is kept until B."""
    scaled = _scaled(stage.activation_bytes, forward_delta)
    return tuple(min(size, LARGEST_VALUE) for size in scaled)


def _weight_grad(
    stage: Stage, activation: tuple[int, ...], backward_delta: float | None
) -> tuple[int, ...]:
    """What F and B together leave allocated is what is kept until W: the same share of each
    micro-batch's activation."""
    if not any(stage.backward_weight_ns):
        return stage.weight_grad_bytes
    middle = median(activation)
    kept = median(stage.weight_grad_bytes)
    if backward_delta is not None:
        kept = max(0, middle + backward_delta)
    elif median(stage.activation_bytes):
        kept = kept * middle / median(stage.activation_bytes)
    sizes = (own * kept / middle if middle else kept for own in activation)
    return tuple(min(round(size), LARGEST_VALUE) for size in sizes)
