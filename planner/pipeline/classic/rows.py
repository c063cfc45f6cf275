"""The comparison: one row per classic schedule, under the same costs and limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from planner.errors import Interrupted, OrderError
from planner.pipeline.classic import placement as placements
from planner.pipeline.classic import schedules
from planner.pipeline.classic.placement import Placement
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.progress import StopCheck, never
from planner.pipeline.schedule import COMPUTE_KINDS, Schedule

NOT_REACHED = "not computed: the time was up"
FUSED_NOTE = "the backward is fused, so there is no weight gradient to fill bubbles with"


@dataclass(frozen=True)
class ClassicRow:
    """One classic schedule under a problem's costs and limits.

    `problem` is what the schedule was made for: the posted one, or, where `hypothetical`, the same
    work in another placement. Where it does not fit, `reason` says why; a row that fits may have
    a remark there. `schedule` is None where there is nothing to show.
    """

    name: str
    placement: Placement
    hypothetical: bool
    schedule: Schedule | None
    problem: PipelineProblem
    fits: bool
    reason: str | None

    @property
    def bubble_ratio(self) -> float | None:
        """1 - busy time / (used devices x makespan)."""
        return None if self.schedule is None else bubble_ratio(self.problem, self.schedule)


def bubble_ratio(problem: PipelineProblem, schedule: Schedule) -> float:
    """Idle share of the used devices' time: 1 - busy time / (used devices x makespan)."""
    if not schedule.makespan_ns:
        return 0.0
    used = len({stage.device for stage in problem.stages})
    busy = sum(op.end_ns - op.start_ns for op in schedule.ops if op.op in COMPUTE_KINDS)
    return round(1 - busy / (used * schedule.makespan_ns), 6)


def comparison_rows(problem: PipelineProblem, should_stop: StopCheck = never) -> list[ClassicRow]:
    """GPipe, 1F1B, interleaved 1F1B, ZB-H1, ZB-H2, ZB-V and PipeOffload for a problem.

    A schedule that needs another placement than the problem's is computed on the same work placed
    so, and its row marked hypothetical. PipeOffload runs in any placement. A row that was not
    reached before `should_stop` said so has no schedule and the reason `NOT_REACHED`.
    """
    one_chunk = _Placed(problem, Placement.ONE_CHUNK, should_stop)
    interleaved = _Placed(problem, Placement.INTERLEAVED, should_stop)
    v_shape = _Placed(problem, Placement.V_SHAPE, should_stop)
    chunks = placements.chunks_per_device(interleaved.problem) or 2

    def interleave(placed: PipelineProblem, should_stop: StopCheck) -> Schedule:
        return schedules.interleaved_schedule(placed, chunks, should_stop)

    return [
        one_chunk.row("GPipe", schedules.gpipe_schedule),
        one_chunk.row("1F1B", schedules.one_forward_one_backward_schedule),
        interleaved.row("Interleaved 1F1B", interleave),
        one_chunk.row("ZB-H1", schedules.zero_bubble_h1_schedule, fills_with_weights=True),
        one_chunk.row("ZB-H2", schedules.zero_bubble_h2_schedule, fills_with_weights=True),
        v_shape.row("ZB-V", schedules.zero_bubble_v_schedule, fills_with_weights=True),
        _pipe_offload_row(problem, should_stop),
    ]


def row_document(row: ClassicRow) -> dict[str, Any]:
    """A row as the API answers with it; figures are null where there is no schedule."""
    schedule = row.schedule
    return {
        "name": row.name,
        "placement": row.placement.value,
        "hypothetical": row.hypothetical,
        "makespan_ns": schedule and schedule.makespan_ns,
        "steady_span_ns": schedule and schedule.steady_span_ns,
        "bubble_ratio": row.bubble_ratio,
        "peak_memory_bytes": schedule and list(schedule.peak_memory_bytes),
        "offloads": schedule and schedule.offloads,
        "fits": row.fits,
        "reason": row.reason,
    }


class _Placed:
    """A problem in the placement that a schedule needs."""

    def __init__(self, posted: PipelineProblem, wanted: Placement, should_stop: StopCheck) -> None:
        self.should_stop = should_stop
        fits_posted = {
            Placement.ONE_CHUNK: placements.is_one_chunk,
            Placement.INTERLEAVED: placements.is_interleaved,
            Placement.V_SHAPE: placements.is_v_shape,
        }[wanted]
        self.hypothetical = not fits_posted(posted)
        self.placement = wanted if self.hypothetical else Placement.AS_POSTED
        self.problem = posted
        if self.hypothetical:
            self.problem = placements.merged(posted)
            if wanted is Placement.INTERLEAVED:
                self.problem = placements.interleaved(self.problem)
            elif wanted is Placement.V_SHAPE:
                self.problem = placements.v_shape(self.problem)

    def row(
        self,
        name: str,
        make: Callable[[PipelineProblem, StopCheck], Schedule],
        *,
        fills_with_weights: bool = False,
    ) -> ClassicRow:
        """The row of a schedule; one that lives off splitting W says where there is none."""
        try:
            schedule = make(self.problem, self.should_stop)
        except Interrupted:
            return ClassicRow(
                name, self.placement, self.hypothetical, None, self.problem, False, NOT_REACHED
            )
        reason = shortage(self.problem, schedule)
        fits = reason is None
        fused = not any(any(stage.backward_weight_ns) for stage in self.problem.stages)
        if fits and fused and fills_with_weights:
            reason = FUSED_NOTE
        return ClassicRow(
            name, self.placement, self.hypothetical, schedule, self.problem, fits, reason
        )


def _pipe_offload_row(problem: PipelineProblem, should_stop: StopCheck) -> ClassicRow:
    schedule, reason = None, None
    if not problem.can_offload:
        reason = "no stage can offload anything"
    else:
        try:
            schedule = schedules.pipe_offload_schedule(problem, should_stop)
            reason = shortage(problem, schedule)
        except Interrupted:
            reason = NOT_REACHED
        except OrderError:
            reason = "out of memory: one micro-batch at a time does not fit with its offloads"
    return ClassicRow(
        "PipeOffload",
        Placement.AS_POSTED,
        False,
        schedule,
        problem,
        schedule is not None and reason is None,
        reason,
    )


def shortage(problem: PipelineProblem, schedule: Schedule) -> str | None:
    """Which device or host is most short of memory, and by how much; None if all have enough."""
    over = [
        (peak - device.activation_memory_bytes, f"device {d}", peak, device.activation_memory_bytes)
        for d, (device, peak) in enumerate(
            zip(problem.devices, schedule.peak_memory_bytes, strict=True)
        )
        if device.activation_memory_bytes is not None and peak > device.activation_memory_bytes
    ]
    over += [
        (peak - host.memory_bytes, f"host {h}", peak, host.memory_bytes)
        for h, (host, peak) in enumerate(
            zip(problem.hosts, schedule.host_peak_memory_bytes, strict=True)
        )
        if host.memory_bytes is not None and peak > host.memory_bytes
    ]
    if not over:
        return None
    _, where, peak, limit = max(over, key=itemgetter(0))
    return f"out of memory: {where} needs {peak} bytes and has {limit}"
