"""The search: every configuration's bound, then the configurations themselves, best bound first.

A configuration is worked out only if it may be among the top k or on the Pareto front. What is
left out is counted by rule, and each rule is exact: the plans found are those of working out all.
Configurations that differ in ZeRO stage, recomputation and offload only are one family, of which
the fastest that fits is ranked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush, nsmallest
from typing import Any

from planner.cost.training import Training
from planner.errors import SpecError
from planner.progress import StopCheck, never
from planner.training.bounds import LeastTime
from planner.training.evaluate import Evaluator, Plan, Shortage
from planner.training.pareto import Front
from planner.training.space import SEQUENCE, Saver, count_configurations, points, savers
from planner.training.spec import TrainingSpec
from planner.training.trainings import training_of, with_savers

FITS, STATES, ACTIVATIONS = "fits", "states", "activations"
SLOWER, MILDER, NOT_REACHED = "slower", "milder", "not_reached"
RULES = {
    STATES: "parameters, gradients and optimizer states alone exceed a GPU's memory",
    ACTIVATIONS: "states fit, but not with 1F1B's activations, offloaded where that is allowed",
    SLOWER: "its bound is above the predicted step of the last plan that is listed (and of no "
    "point of the Pareto front)",
    MILDER: "with less ZeRO, recomputation or offloading the same degrees are as fast or faster",
    NOT_REACHED: "not looked at: the search was stopped",
}
EXAMPLES_PER_RULE = 2

Family = tuple[Any, ...]


@dataclass(frozen=True)
class Dropped:
    """An example of a configuration that is not among the plans, and by which rule."""

    rule: str
    training: Training
    bound_ns: int


@dataclass
class Found:
    """What a search found. `ranked` has the fastest plan of each family worked out, best first.
    `least_ns` is a bound for any schedule of any configuration whose states fit."""

    ranked: list[Plan] = field(default_factory=list)
    front: list[Plan] = field(default_factory=list)
    enumerated: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    worked_out: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    dropped: list[Dropped] = field(default_factory=list)
    least_ns: int | None = None
    complete: bool = True


def search(
    spec: TrainingSpec,
    evaluator: Evaluator,
    expert_loads: Mapping[tuple[int, int], float] | None = None,
    should_stop: StopCheck = never,
    on_best: Callable[[Plan], None] = lambda _plan: None,
) -> Found:
    """All plans that the request asks for. Told to stop, those found so far."""
    return _Search(spec, evaluator, expert_loads or {}, should_stop, on_best).run()


class _Search:
    def __init__(
        self,
        spec: TrainingSpec,
        evaluator: Evaluator,
        expert_loads: Mapping[tuple[int, int], float],
        should_stop: StopCheck,
        on_best: Callable[[Plan], None],
    ) -> None:
        self._spec = spec
        self._evaluator = evaluator
        self._should_stop = should_stop
        self._on_best = on_best
        self._best: dict[Family, Plan] = {}
        self._kth_ns: int | None = None
        self._fits_without_offload: set[Family] = set()
        self._front = Front()
        self._found = Found()
        self._points = list(self._bounded_points(expert_loads))

    def run(self) -> Found:
        found = self._found
        for least, training in self._best_first():
            if self._should_stop():
                found.complete = False
                break
            if self._is_out_of_reach(least) and not self._spec.pareto:
                self._note_dropped(SLOWER, least, training)
                break
            outcome = self._look_at(least, training)
            found.outcomes[outcome] += 1
            if outcome != FITS:
                self._note_dropped(outcome, least, training)
        found.enumerated = sum(point.configurations for point in self._points)
        if not found.complete:
            found.enumerated = count_configurations(self._spec).configurations
        rest = found.enumerated - found.outcomes.total()
        found.outcomes[SLOWER if found.complete else NOT_REACHED] += rest
        found.ranked = sorted(self._best.values(), key=lambda plan: plan.key)
        found.front = self._front.plans() if self._spec.pareto else []
        found.least_ns = self._least_ns()
        return found

    def _bounded_points(self, expert_loads: Mapping[tuple[int, int], float]) -> Iterator[_Point]:
        spec, left_out = self._spec, self._found.left_out
        for point in points(spec, left_out):
            if self._should_stop():
                self._found.complete = False
                return
            try:
                training = training_of(
                    spec, point, expert_loads.get((point.degrees.expert, point.degrees.tensor))
                )
            except SpecError:
                left_out[SEQUENCE] += 1
                continue
            own = savers(spec, point.degrees)
            stages = tuple({zero_stage for zero_stage, _, _ in own})
            bounds = [
                self._evaluator.bounds.least_time(replace(training, interleaving=chunks), stages)
                for chunks in point.interleavings
            ]
            least = LeastTime(
                min(bound.closed_form_ns for bound in bounds),
                min(bound.any_schedule_ns for bound in bounds),
            )
            yield _Point(training, point.interleavings, own, least)

    def _configurations(self, point: _Point) -> Iterator[tuple[LeastTime, Training]]:
        """Those of a point with their bounds, the milder first."""
        for chunks in point.interleavings:
            for saver in point.savers:
                training = with_savers(point.training, self._spec, chunks, saver)
                yield self._evaluator.bounds.least_time(training), training

    def _best_first(self) -> Iterator[tuple[LeastTime, Training]]:
        """Every configuration by its bound, those of a point in turn where bounds are equal; a
        point's are made when its bound comes up."""
        heap: list[tuple[int, int, _Point | tuple[LeastTime, Training]]] = [
            (point.least.closed_form_ns, number, point) for number, point in enumerate(self._points)
        ]
        heapify(heap)
        number = len(heap)
        while heap:
            _, _, entry = heappop(heap)
            if not isinstance(entry, _Point):
                yield entry
                continue
            rule = self._rule_against(entry)
            if rule is not None:
                self._found.outcomes[rule] += entry.configurations
                self._note_dropped(rule, entry.least, entry.training)
                continue
            for configuration in self._configurations(entry):
                number += 1
                heappush(heap, (configuration[0].closed_form_ns, number, configuration))

    def _rule_against(self, point: _Point) -> str | None:
        """Why none of a point's configurations can be listed, if that is known: not even the states
        of the highest ZeRO stage are small enough."""
        cluster, training = self._spec.cluster, point.training
        highest = max(zero_stage for zero_stage, _, _ in point.savers)
        states = self._evaluator.bounds.states_bytes(replace(training, zero_stage=highest))
        needed = states + cluster.reserved_bytes
        if needed > cluster.memory_bytes:
            return STATES
        if not self._spec.pareto or not self._is_out_of_reach(point.least):
            return None
        limit = self._front.limit_bytes(training.degrees.gpus, point.least.closed_form_ns)
        return SLOWER if limit is not None and needed > limit else None

    def _is_out_of_reach(self, least: LeastTime) -> bool:
        return self._kth_ns is not None and least.closed_form_ns > self._kth_ns

    def _look_at(self, least: LeastTime, training: Training) -> str:
        """What becomes of a configuration."""
        capacity = limit = self._spec.cluster.memory_bytes
        bound_ns, family = least.closed_form_ns, family_of(training)
        same = (*family, training.zero_stage, training.recomputation)
        if training.offload and same in self._fits_without_offload:
            return MILDER
        known = self._best.get(family)
        rank = SLOWER if self._is_out_of_reach(least) else None
        if rank is None and known is not None and bound_ns > known.total_ns:
            rank = MILDER
        if rank is not None:
            if not self._spec.pareto:
                return rank
            needed = self._front.limit_bytes(training.degrees.gpus, bound_ns)
            limit = limit if needed is None else min(limit, needed)
            if self._is_optional_offload(training) and (
                limit < self._evaluator.bounds.least_offloaded_bytes(training)
            ):
                return rank or SLOWER
        if not self._evaluator.may_hold(training, limit):
            return self._too_large(training) if limit == capacity else rank or SLOWER
        self._found.worked_out += 1
        outcome = self._evaluator.evaluate(training)
        if isinstance(outcome, Shortage):
            return STATES if outcome.is_of_states else ACTIVATIONS
        if self._is_optional_offload(training) and outcome.offload is None:
            return MILDER
        self._keep(outcome, family)
        if not training.offload:
            self._fits_without_offload.add(same)
        return FITS

    def _is_optional_offload(self, training: Training) -> bool:
        """Whether the same is searched without offloads, which is milder where none are needed."""
        return training.offload and False in self._spec.choices.offload

    def _keep(self, plan: Plan, family: Family) -> None:
        if self._spec.pareto:
            self._front.add(plan)
        known = self._best.get(family)
        if known is not None and known.key <= plan.key:
            return
        is_first = not self._best or plan.key < min(p.key for p in self._best.values())
        self._best[family] = plan
        times = nsmallest(self._spec.top, (p.total_ns for p in self._best.values()))
        if len(times) == self._spec.top:
            self._kth_ns = times[-1]
        if is_first:
            self._on_best(plan)

    def _too_large(self, training: Training) -> str:
        states = self._evaluator.bounds.states_bytes(training)
        cluster = self._spec.cluster
        too_large = states + cluster.reserved_bytes > cluster.memory_bytes
        return STATES if too_large else ACTIVATIONS

    def _note_dropped(self, rule: str, least: LeastTime, training: Training) -> None:
        """The most promising of each rule, of different degrees."""
        same = [d for d in self._found.dropped if d.rule == rule]
        known = {d.training.degrees for d in same}
        if len(same) < EXAMPLES_PER_RULE and training.degrees not in known:
            self._found.dropped.append(Dropped(rule, training, least.closed_form_ns))

    def _least_ns(self) -> int | None:
        """The least bound of any schedule, of those configurations whose states fit."""
        best: int | None = None
        for point in sorted(self._points, key=lambda point: point.least.any_schedule_ns):
            if best is not None and point.least.any_schedule_ns >= best:
                break
            for least, training in self._configurations(point):
                shorter = best is None or least.any_schedule_ns < best
                if shorter and self._too_large(training) != STATES:
                    best = least.any_schedule_ns
        return best


@dataclass(frozen=True)
class _Point:
    """Degrees and micro-batch size with everything that they leave open."""

    training: Training
    interleavings: tuple[int, ...]
    savers: list[Saver]
    least: LeastTime

    @property
    def configurations(self) -> int:
        return len(self.interleavings) * len(self.savers)


def family_of(training: Training) -> Family:
    """What configurations have in common that differ only in what saves memory."""
    return (training.degrees, training.micro_batch_size, training.interleaving)
