"""The comparison: one row per classic schedule, under the same costs and limits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from planner.errors import Interrupted, OrderError
from planner.pipeline.classic import placement as placements
from planner.pipeline.classic import schedules
from planner.pipeline.classic.placement import Placement
from planner.pipeline.classic.shortage import Shortage, shortage
from planner.pipeline.classic.timed import TimedClassic
from planner.pipeline.kernel.tables import WEIGHT, compute_durations
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.progress import StopCheck, check, never

CHEAP_ROW = "1F1B"
"""The last of the rows that are known at once."""
PIPE_OFFLOAD = "PipeOffload"
WHOLE_BACKWARD = ("GPipe", CHEAP_ROW, "Interleaved 1F1B")
"""Rows of schedules whose backward is one operation: a gradient is sent only after W."""
NOT_REACHED = "not computed: the time was up"
NOTHING_TO_OFFLOAD = "no stage can offload anything"
TOO_LARGE = "not computed: too many operations for a schedule planned under memory limits"
NONE_FITS = "out of memory: one micro-batch at a time does not fit with its offloads"
FUSED_NOTE = "the backward is fused, so there is no weight gradient to fill bubbles with"


@dataclass(frozen=True)
class ClassicRow:
    """One classic schedule under a problem's costs and limits.

    `problem` is what the schedule was made for: the posted one, or, where `hypothetical`, the same
    work in another placement. Where it does not fit, `reason` says why, and where that is a lack
    of memory `shortage` has the figures; a row that fits may have a remark as its reason. Where
    there is nothing to show `timed` is None, and `problem` the posted one.
    """

    name: str
    placement: Placement
    hypothetical: bool
    timed: TimedClassic | None
    problem: PipelineProblem
    fits: bool
    reason: str | None
    shortage: Shortage | None = None

    @property
    def schedule(self) -> Schedule | None:
        """The operations, made when first asked for."""
        return None if self.timed is None else self.timed.schedule

    @property
    def objective_ns(self) -> int:
        """The problem's objective; of a row with nothing to show more than of any other."""
        return sys.maxsize if self.timed is None else self.timed.objective_ns

    @property
    def bubble_ratio(self) -> float | None:
        """Idle share of the used devices' time: 1 - busy time / (used devices x makespan)."""
        if self.timed is None:
            return None
        if not self.timed.makespan_ns:
            return 0.0
        used = len({stage.device for stage in self.problem.stages})
        return round(1 - self.timed.busy_ns / (used * self.timed.makespan_ns), 6)


def comparison_rows(
    problem: PipelineProblem, should_stop: StopCheck = never
) -> Iterator[ClassicRow]:
    """The classic schedules for a problem, each computed when it is asked for, those that take
    longest last.

    A schedule that needs another placement than the problem's is computed on the same work placed
    so, and its row marked hypothetical. PipeOffload is the best of its family in the posted
    placement. A row that was not reached before `should_stop` said so has no schedule and the
    reason `NOT_REACHED`.
    """
    for recipe in _recipes(problem, should_stop):
        yield recipe.placed.row(recipe)
    yield _pipe_offload_row(problem, should_stop)


def schedules_named(problem: PipelineProblem, name: str) -> Iterator[TimedClassic]:
    """What may be behind the row of this name: one schedule, or of PipeOffload its family, each
    computed when it is asked for."""
    if name == PIPE_OFFLOAD:
        with suppress(OrderError):
            yield from _pipe_offload_family(problem, never)
    for recipe in _recipes(problem, never):
        if recipe.name == name:
            yield recipe.make(recipe.placed.problem)


def row_document(row: ClassicRow) -> dict[str, Any]:
    """A row as the API answers with it; figures are null where there is no schedule."""
    timed = row.timed
    return {
        "name": row.name,
        "placement": row.placement.value,
        "hypothetical": row.hypothetical,
        "makespan_ns": timed and timed.makespan_ns,
        "steady_span_ns": timed and timed.steady_span_ns,
        "bubble_ratio": row.bubble_ratio,
        "peak_memory_bytes": timed and list(timed.peak_memory_bytes),
        "offloads": timed and timed.offloads,
        "fits": row.fits,
        "reason": row.reason,
        "shortage": None if row.shortage is None else asdict(row.shortage),
    }


class _Placed:
    """A problem in the placement that a schedule needs."""

    def __init__(self, posted: PipelineProblem, wanted: Placement, should_stop: StopCheck) -> None:
        self.should_stop = should_stop
        self.posted = posted
        self.wanted = wanted
        fits_posted = {
            Placement.ONE_CHUNK: placements.is_one_chunk,
            Placement.INTERLEAVED: placements.is_interleaved,
            Placement.V_SHAPE: placements.is_v_shape,
        }[wanted]
        self.hypothetical = not fits_posted(posted)
        self.placement = wanted if self.hypothetical else Placement.AS_POSTED

    @cached_property
    def problem(self) -> PipelineProblem:
        """The work in this placement, made when first asked for: a large one takes long."""
        if not self.hypothetical:
            return self.posted
        merged = placements.merged(self.posted)
        if self.wanted is Placement.INTERLEAVED:
            return placements.interleaved(merged)
        return placements.v_shape(merged) if self.wanted is Placement.V_SHAPE else merged

    def row(self, recipe: _Recipe) -> ClassicRow:
        """The row of a schedule; one that lives off splitting W says where there is none, and one
        that lives off offloads is left out where there are none."""
        name = recipe.name
        if recipe.offloads and not self.posted.can_offload:
            return self._row(name, None, NOTHING_TO_OFFLOAD)
        if self.should_stop():
            return self._row(name, None, NOT_REACHED)
        if recipe.offloads and not self.problem.can_offload:
            return self._row(name, None, NOTHING_TO_OFFLOAD)
        timed = recipe.make(self.problem)
        lacks = shortage(timed)
        if lacks is not None:
            return self._row(name, timed, str(lacks), shortage=lacks)
        if recipe.fills_with_weights and not compute_durations(timed.tables)[WEIGHT].any():
            return self._row(name, timed, FUSED_NOTE, fits=True)
        return self._row(name, timed, None, fits=True)

    def _row(
        self,
        name: str,
        timed: TimedClassic | None,
        reason: str | None,
        *,
        fits: bool = False,
        shortage: Shortage | None = None,
    ) -> ClassicRow:
        return ClassicRow(
            name,
            self.placement,
            self.hypothetical,
            timed,
            self.posted if timed is None else self.problem,
            fits,
            reason,
            shortage,
        )


@dataclass(frozen=True)
class _Recipe:
    """How a row is made: the schedule that has this name, of a problem in the placement that it
    needs. One that `fills_with_weights` lives off splitting W, one that `offloads` off that."""

    name: str
    placed: _Placed
    make: Callable[[PipelineProblem], TimedClassic]
    fills_with_weights: bool = False
    offloads: bool = False


def _recipes(problem: PipelineProblem, should_stop: StopCheck) -> tuple[_Recipe, ...]:
    """Of all rows but PipeOffload, in their order."""
    one_chunk = _Placed(problem, Placement.ONE_CHUNK, should_stop)
    interleaved = _Placed(problem, Placement.INTERLEAVED, should_stop)
    v_shape = _Placed(problem, Placement.V_SHAPE, should_stop)

    def chunks_of(placed: PipelineProblem) -> int:
        return placements.chunks_per_device(placed) or 2

    def interleave(placed: PipelineProblem) -> TimedClassic:
        return schedules.interleaved_schedule(placed, chunks_of(placed))

    def grouped(placed: PipelineProblem) -> TimedClassic:
        return schedules.grouped_interleaved_schedule(placed, chunks_of(placed))

    def half_grouped(placed: PipelineProblem) -> TimedClassic:
        chunks = chunks_of(placed)
        least = schedules.group_sizes(placed, chunks)[0]
        return schedules.grouped_interleaved_schedule(placed, chunks, least)

    def half_offloaded(placed: PipelineProblem) -> TimedClassic:
        chunks = chunks_of(placed)
        return schedules.uniform_interleaved_schedule(placed, chunks, (chunks + 1) // 2)

    def fully_offloaded(placed: PipelineProblem) -> TimedClassic:
        return schedules.uniform_interleaved_schedule(placed, chunks_of(placed), chunks_of(placed))

    return (
        _Recipe("GPipe", one_chunk, schedules.gpipe_schedule),
        _Recipe(CHEAP_ROW, one_chunk, schedules.one_forward_one_backward_schedule),
        _Recipe("Interleaved 1F1B", interleaved, interleave),
        _Recipe("ZB-H1", one_chunk, schedules.zero_bubble_h1_schedule, fills_with_weights=True),
        _Recipe("ZB-H2", one_chunk, schedules.zero_bubble_h2_schedule, fills_with_weights=True),
        _Recipe("ZB-V", v_shape, schedules.zero_bubble_v_schedule, fills_with_weights=True),
        _Recipe("V-Half", v_shape, schedules.v_half_schedule, fills_with_weights=True),
        _Recipe("V-Min", v_shape, schedules.v_min_schedule, fills_with_weights=True),
        _Recipe("GIS", interleaved, grouped),
        _Recipe("GIS-H", interleaved, half_grouped),
        _Recipe("PO-H", interleaved, half_offloaded, offloads=True),
        _Recipe("PO-F", interleaved, fully_offloaded, offloads=True),
    )


def _pipe_offload_row(problem: PipelineProblem, should_stop: StopCheck) -> ClassicRow:
    """The best of the PipeOffload family that fits; if none does, the one that lacks least."""
    best: TimedClassic | None = None
    reason: str | None = None
    lacks: Shortage | None = None
    try:
        for timed in _pipe_offload_family(problem, should_stop):
            best = timed if best is None else min(best, timed, key=_rank)
    except Interrupted:
        reason = NOT_REACHED
        if best is not None and shortage(best):
            # What was not tried may fit.
            best = None
    except OrderError:
        reason = NONE_FITS
    if best is not None:
        lacks = shortage(best)
        reason = None if lacks is None else str(lacks)
    elif reason is None:
        reason = TOO_LARGE if problem.can_offload else NOTHING_TO_OFFLOAD
    fits = best is not None and reason is None
    return ClassicRow(PIPE_OFFLOAD, Placement.AS_POSTED, False, best, problem, fits, reason, lacks)


def _pipe_offload_family(
    problem: PipelineProblem, should_stop: StopCheck
) -> Iterator[TimedClassic]:
    """What the placement allows: known computation with hidden transfers, then what the
    dispatcher makes of a uniform repeat under the limits."""
    if not problem.can_offload:
        return
    check(should_stop)
    chunks = placements.chunks_per_device(problem)
    hidden: Iterable[TimedClassic] = ()
    if chunks == 1:
        bases = (schedules.zero_bubble_h1_schedule, schedules.one_forward_one_backward_schedule)
        hidden = chain.from_iterable(
            schedules.pipe_offload_around(problem, base(problem)) for base in bases
        )
    elif chunks is not None and placements.is_interleaved(problem):
        hidden = schedules.pipe_offload_interleaved(problem, chunks)
    elif placements.is_v_shape(problem):
        hidden = schedules.pipe_offload_around(problem, schedules.v_half_schedule(problem))
    for timed in hidden:
        if should_stop():
            raise Interrupted("stopped before the family was complete")
        yield timed
    yield from schedules.pipe_offload_dispatched(problem, should_stop)


def _rank(timed: TimedClassic) -> tuple[int, int]:
    lacks = shortage(timed)
    return 0 if lacks is None else lacks.missing_bytes, timed.objective_ns
