"""The choices that the list scheduler leaves open, as one small value."""

from __future__ import annotations

from dataclasses import dataclass

from planner.pipeline.problem import PipelineProblem

Selection = tuple[tuple[bool, ...], ...]
"""Per stage and micro-batch: whether it may be offloaded."""


@dataclass(frozen=True)
class DispatchPolicy:
    """How the list scheduler decides where several operations could start, or none should.

    `in_flight` caps, per stage, the micro-batches between the start of F and the end of B, `held`
    those between the start of F and the end of W. `warm_up` is how many forwards of a stage run
    before its first backward where both could. Tolerances say by how many nanoseconds a
    forward or a weight gradient may delay a backward that is known to arrive; None is no limit.
    `weight_first` runs W right after its B instead of in gaps. `deep_first` prefers later stages
    of a device for forwards.

    `offload` selects what may be offloaded. With `offload_above` an offload starts only while
    more than that share of the device's memory is in use; otherwise whenever its link is free.
    `reload_slack` is how early reloads are wanted, in durations of the reload, before their
    backward can start; `reload_room` keeps room for so many reloads when forwards are admitted.
    """

    in_flight: tuple[int, ...]
    held: tuple[int, ...]
    warm_up: tuple[int, ...]
    first_backward_delay_ns: int | None = None
    forward_delay_ns: int | None = None
    weight_delay_ns: int | None = None
    weight_first: bool = False
    deep_first: bool = True
    offload: Selection = ()
    offload_above: float | None = None
    newest_offload_first: bool = False
    reload_slack: float = 0.5
    reload_room: int = 0


def unlimited(problem: PipelineProblem) -> tuple[int, ...]:
    """Caps that never bind."""
    return (problem.micro_batches,) * len(problem.stages)


def nothing(problem: PipelineProblem) -> Selection:
    """Offload nothing."""
    return ((False,) * problem.micro_batches,) * len(problem.stages)


def every(problem: PipelineProblem, taken: int, of: int) -> Selection:
    """Offload `taken` micro-batches out of each `of`, evenly spread, where a stage can."""
    pattern = [(m + 1) * taken // of > m * taken // of for m in range(problem.micro_batches)]
    return tuple(
        tuple(
            chosen and size > 0 for chosen, size in zip(pattern, stage.offload_bytes, strict=True)
        )
        for stage in problem.stages
    )
