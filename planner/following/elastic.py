"""What a change of shape would bring a run whose stages take unequal times.

A schedule cannot help a pipeline whose slowest stage sets the pace. Where the slowest takes more
than `IMBALANCE` times as long as the fastest, three changes are looked at: the same global batch
in another number of micro-batches, layers moved between stages, and both. What is proposed has
been timed and verified on the changed problem, by the same quick heuristics as the unchanged one,
and is faster than both the running order, timed again on the fresh profile, and the best quick
order without any change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from planner.errors import OrderError
from planner.following.batch_sizes import (
    by_rule_of_thumb,
    in_micro_batches,
    numbers_for,
    resized,
    typical_micro_batch,
)
from planner.following.partitions import Layers, balanced_partitions, repartitioned
from planner.following.quick import LARGE_OPERATIONS, QuickSchedule, quick_schedule
from planner.following.shape_words import (
    LAYERS_UNKNOWN,
    NOT_BETTER_BALANCED,
    Before,
    notes_of,
    reason_for,
    rule_of_thumb_note,
    slowest_device_ns,
    timed_partition_note,
    untimed_partition_note,
)
from planner.following.shapes import AS_IT_IS, Baseline, Elasticity, Kind, Proposal, Proposals
from planner.pipeline.bounds.alike import alike_bound_ns
from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.pipeline.objective import objective_ns
from planner.pipeline.periodic.shorten import with_micro_batches
from planner.pipeline.problem import MicroBatchOrder, Objective, PipelineProblem
from planner.pipeline.repair import adapt
from planner.pipeline.schedule import Schedule
from planner.progress import StopCheck, never

IMBALANCE = 1.15
"""Slowest stage over fastest, above which a change of shape is looked at."""
ALIKE = (
    f"Stages take times within {IMBALANCE:g} of each other: no other shape is looked at. What more "
    "micro-batches would bring against the bubble is in the diagnosis."
)
MOST_TIMED = 3
"""Changes of each kind that are timed, those of the lowest bound first; of large ones, which take
seconds each, one."""
MOST_OPERATIONS = 200_000
"""A changed iteration of more operations is not looked at."""


def imbalance(problem: PipelineProblem) -> float:
    """The slowest stage's F + B + W over the fastest's, means over micro-batches, each counted as
    at least 1 ns."""
    times = _stage_times_ns(typical_micro_batch(problem))
    return max(1, *times) / max(1, min(times))


def propose(
    problem: PipelineProblem,
    running: Schedule | None = None,
    layers: Layers | None = None,
    elasticity: Elasticity = AS_IT_IS,
    should_stop: StopCheck = never,
) -> Proposals:
    """At most one proposal of each kind, the fastest first, with notes on what is not proposed.

    `problem` is the fresh profile and `running` the plan that runs; without one the best quick
    schedule stands for it. Without `layers` no layer moves. Nothing where stages are within
    `IMBALANCE` of each other, and where no change is faster. A change that does not fit is left
    out. Told to stop, it answers with what has been timed by then.

    Raises `ValueError` where `layers` or `elasticity` do not suit the problem.
    """
    _check(problem, layers, elasticity)
    if imbalance(problem) <= IMBALANCE:
        return Proposals((), (ALIKE,))
    return _Search(problem, running, layers, elasticity, should_stop).run()


def _check(problem: PipelineProblem, layers: Layers | None, elasticity: Elasticity) -> None:
    if layers is not None and (
        len(layers.per_stage) != len(problem.stages) or min(layers.per_stage) < 1
    ):
        raise ValueError(
            f"layers.per_stage needs a number of at least 1 for each of {len(problem.stages)} "
            f"stages, not {list(layers.per_stage)}."
        )
    size = elasticity.micro_batch_size
    if (size is not None and size < 1) or not 0 <= elasticity.fixed_share <= 1:
        raise ValueError("micro_batch_size must be at least 1 and fixed_share from 0 to 1.")


@dataclass(frozen=True, slots=True)
class _Change:
    """A changed shape as a problem, with a bound on what any schedule of it takes."""

    kind: Kind
    micro_batches: int
    micro_batch_size: int | None
    layers_per_stage: tuple[int, ...] | None
    problem: PipelineProblem
    bound_ns: int


class _Search:
    """Times the most promising changes of each kind."""

    def __init__(
        self,
        problem: PipelineProblem,
        running: Schedule | None,
        layers: Layers | None,
        elasticity: Elasticity,
        should_stop: StopCheck,
    ) -> None:
        self._one = typical_micro_batch(problem)
        self._count = problem.micro_batches
        self._layers = layers if elasticity.may_change_partition else None
        self._elasticity, self._should_stop = elasticity, should_stop
        self._known: dict[tuple[int, tuple[int, ...] | None], QuickSchedule | None] = {}
        unchanged = with_micro_batches(self._one, self._count)
        same = self._quick(unchanged, None)
        same_ns = None if same is None else objective_ns(unchanged, same.schedule)
        self._before = Before(
            stage_times_ns=tuple(_stage_times_ns(self._one)),
            device_time_ns=slowest_device_ns(self._one),
            micro_batches=self._count,
            micro_batch_size=elasticity.micro_batch_size,
            fixed_share=elasticity.fixed_share,
            layers_per_stage=None if layers is None else layers.per_stage,
            are_alike=problem.alike,
            running_ns=same_ns
            if running is None
            else _timed_again_ns(unchanged, running, should_stop),
            same_shape_ns=same_ns,
        )

    def run(self) -> Proposals:
        """The best of each kind; both changes together only where they are worth more than either
        alone."""
        to_beat_ns = self._before.best_ns
        found: list[Proposal] = []
        for kind in (Kind.MICRO_BATCHES, Kind.PARTITION):
            found += self._best(kind, to_beat_ns)
        to_beat_ns = min((own.predicted_ns for own in found), default=to_beat_ns)
        found += self._best(Kind.BOTH, to_beat_ns)
        found.sort(key=lambda own: own.predicted_ns)
        return Proposals(tuple(found), tuple(self._notes(found)))

    def _notes(self, found: Sequence[Proposal]) -> Iterator[str]:
        """What is not proposed, and why."""
        if self._layers is None and self._elasticity.may_change_partition:
            yield LAYERS_UNKNOWN
        if self._layers is not None and not any(own.layers_per_stage for own in found):
            yield self._why_no_partition()
        sized = any(own.kind is not Kind.PARTITION for own in found)
        if self._elasticity.may_change_micro_batches and not sized:
            yield rule_of_thumb_note(self._before, self._baseline)

    def _why_no_partition(self) -> str:
        """What became of the partition of the lowest bound, where no layer is to be moved."""
        change = next(iter(self._changes(Kind.PARTITION)), None)
        if change is None or change.layers_per_stage is None:
            return NOT_BETTER_BALANCED
        shape = change.problem.micro_batches, change.layers_per_stage
        if shape not in self._known:
            return untimed_partition_note(self._before, change.layers_per_stage, change.bound_ns)
        quick = self._known[shape]
        timed_ns = None if quick is None else objective_ns(change.problem, quick.schedule)
        return timed_partition_note(self._before, change.layers_per_stage, timed_ns)

    def _best(self, kind: Kind, to_beat_ns: int | None) -> list[Proposal]:
        """The fastest of the most promising changes of a kind, if it beats what is known; what
        cannot, by its bound, is not timed."""
        best: list[Proposal] = []
        changes = self._changes(kind)
        is_large = bool(changes) and changes[0].problem.operations >= LARGE_OPERATIONS
        for change in changes[: 1 if is_large else MOST_TIMED]:
            if self._should_stop() or (to_beat_ns is not None and change.bound_ns >= to_beat_ns):
                break
            quick = self._quick(change.problem, change.layers_per_stage)
            if quick is None:
                continue
            predicted_ns = objective_ns(change.problem, quick.schedule)
            if to_beat_ns is None or predicted_ns < to_beat_ns:
                to_beat_ns = predicted_ns
                best = [self._proposal(change, quick, predicted_ns)]
        return best

    def _quick(
        self, problem: PipelineProblem, layers_per_stage: tuple[int, ...] | None
    ) -> QuickSchedule | None:
        """Each shape is timed once, however often it comes up."""
        shape = problem.micro_batches, layers_per_stage
        if shape not in self._known:
            self._known[shape] = quick_schedule(problem, self._should_stop)
        return self._known[shape]

    def _changes(self, kind: Kind) -> list[_Change]:
        """The changes of a kind, those of the lowest bound first."""
        size = self._elasticity.micro_batch_size
        batches: list[tuple[int, int | None]] = [(self._count, size)]
        if kind is not Kind.PARTITION:
            numbers = numbers_for(self._count, size)
            batches = [(number, self._size_at(number)) for number in numbers]
            if not self._elasticity.may_change_micro_batches:
                batches = []
        changes = [
            change
            for number, own_size in batches
            if 3 * number * len(self._one.stages) <= MOST_OPERATIONS
            for change in self._changes_at(kind, number, own_size)
        ]
        return sorted(changes, key=lambda change: (change.bound_ns, change.micro_batches))

    def _size_at(self, number: int) -> int | None:
        size = self._elasticity.micro_batch_size
        return None if size is None else self._count * size // number

    def _changes_at(self, kind: Kind, number: int, size: int | None) -> Iterator[_Change]:
        one, layers = self._sized(number), self._layers
        partitions: Iterable[tuple[int, ...] | None] = (None,)
        if kind is not Kind.MICRO_BATCHES:
            partitions = () if layers is None else balanced_partitions(one, layers, number)
        for per_stage in partitions:
            own = one
            if per_stage is not None and layers is not None:
                own = repartitioned(one, layers, per_stage)
            whole = with_micro_batches(own, number)
            yield _Change(kind, number, size, per_stage, whole, _bound_ns(own, whole))

    def _sized(self, number: int) -> PipelineProblem:
        """One of so many micro-batches."""
        return resized(self._one, Fraction(self._count, number), self._elasticity.fixed_share)

    @cached_property
    def _baseline(self) -> Baseline:
        """What the rule of thumb makes of the run."""
        number = by_rule_of_thumb(self._count, self._before.stage_times_ns)
        size = self._elasticity.micro_batch_size
        if size is not None and self._count * size % number:
            reason = f"{self._count * size} samples do not divide into {number} micro-batches."
            return Baseline(number, None, None, reason)
        size = self._size_at(number)
        whole = in_micro_batches(self._one, self._count, number, self._elasticity.fixed_share)
        if whole.operations > MOST_OPERATIONS:
            return Baseline(number, size, None, "Too many operations to be timed quickly.")
        quick = self._quick(whole, None)
        if quick is None:
            return Baseline(number, size, None, "It does not fit into memory.")
        return Baseline(number, size, objective_ns(whole, quick.schedule), None)

    def _proposal(self, change: _Change, quick: QuickSchedule, predicted_ns: int) -> Proposal:
        return Proposal(
            kind=change.kind,
            micro_batches=change.micro_batches,
            micro_batch_size=change.micro_batch_size,
            layers_per_stage=change.layers_per_stage,
            problem=change.problem,
            schedule=quick.schedule,
            found_by=quick.found_by,
            predicted_ns=predicted_ns,
            running_ns=self._before.running_ns,
            same_shape_ns=self._before.same_shape_ns,
            lower_bound_ns=change.bound_ns,
            baseline=None if change.kind is Kind.PARTITION else self._baseline,
            reason=reason_for(self._before, change.problem, change.layers_per_stage, predicted_ns),
            notes=notes_of(self._before, change.micro_batches),
        )


def _stage_times_ns(one: PipelineProblem) -> list[int]:
    return [stage.compute_ns(0) for stage in one.stages]


def _bound_ns(one: PipelineProblem, whole: PipelineProblem) -> int:
    """A proven bound on the objective, at a cost that hardly grows with micro-batches."""
    if whole.objective is Objective.MAKESPAN and whole.micro_batch_order is MicroBatchOrder.FIXED:
        return alike_bound_ns(one, whole.micro_batches)
    return lower_bounds(whole, lambda: True)[0].value_ns


def _timed_again_ns(
    problem: PipelineProblem, running: Schedule, should_stop: StopCheck
) -> int | None:
    try:
        ops = (op._asdict() for op in running.ops)
        return objective_ns(problem, adapt(problem, ops, should_stop))
    except OrderError:
        return None
