"""Everything that the rules of causes ask for, worked out once and within a bound of time.

Predictions are made on `base`: the problem with its times replaced by measured ones where there
are any. The plan's orders are timed again on it; where no plan was given, the heuristic's stands
in. Only problems of at most `LARGEST_OPERATIONS` operations are timed, so that nothing compiled
is needed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from planner.diagnoses.measured import with_measured_times
from planner.diagnoses.quick_plans import (
    Timed,
    carried_over,
    dispatched,
    same_shape,
    timed_orders,
)
from planner.diagnoses.request import DiagnosisRequest
from planner.diagnoses.telemetry import Profile, StageProfile, profile_of
from planner.diagnoses.waiting import RankOrders, rank_orders, wait_cycle
from planner.errors import OrderError
from planner.estimates.scaling.points import Kind, Point, curve_of
from planner.export.torch_csv.cells import Cell
from planner.pipeline.adaoffload import AdaOffloadSettings
from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.pipeline.feasibility.decide import Infeasibility, find_infeasibility
from planner.pipeline.objective import objective_ns
from planner.pipeline.orders import Orders, check_complete, orders_of
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule, TimedOp

LARGEST_OPERATIONS = 3_600
"""With a reload per micro-batch and stage still below what `time_orders` compiles for."""
MOST_ORDERED = 50_000
"""Operations of which it is looked whether ranks wait for each other."""
MOST_CHUNKS_OF_A_HOST = 8
"""Stages that share a limited host: with more, whether anything fits is a long search."""
PREDICTIONS_S = 1.2
"""CPU seconds after which a diagnosis begins no further prediction."""
HEURISTICS_S = 0.7
"""CPU seconds that all heuristics of a diagnosis may take, and how many of them each."""
HEURISTIC_S = 0.15
STAND_IN_S = 0.4
"""For the plan that stands in for one that was not given: everything else depends on it."""
LEAST_S = 0.05
"""With less left no further heuristic is begun."""

TOO_LARGE = (
    f"The problem has more than {LARGEST_OPERATIONS:,} operations, too many to time here; "
    "POST /v1/pipeline-schedules solves it."
)
NO_PROBLEM = "No `problem`, or `model` and `cluster`, was given."
NO_TIME = "The time for predictions was used up by other causes; name fewer symptoms."
NOTHING_FITS = "No schedule of the problem fits into memory."


HeuristicKey = tuple[int, AdaOffloadSettings | None]
"""A problem, by its identity, and how it is solved."""


class Context:
    """One request, and what follows from its numbers."""

    def __init__(self, request: DiagnosisRequest) -> None:
        self.request = request
        self._ends = time.thread_time() + PREDICTIONS_S
        self._heuristics_left_s = HEURISTICS_S
        self._bounds: dict[int, tuple[PipelineProblem, int]] = {}
        self._heuristics: dict[HeuristicKey, tuple[PipelineProblem, Schedule | None]] = {}

    @cached_property
    def profile(self) -> Profile | None:
        """What telemetry comes to; None without any."""
        return profile_of(self.request.telemetry)

    @property
    def measured_stages(self) -> Mapping[int, StageProfile]:
        """Telemetry by stage; none without any."""
        return {} if self.profile is None else self.profile.stages

    @property
    def iterations_ns(self) -> Sequence[int]:
        """What iterations took, in order of time; none without telemetry."""
        return [] if self.profile is None else self.profile.iterations_ns

    @property
    def problem(self) -> PipelineProblem | None:
        """As planned."""
        return self.request.problem

    @property
    def expected(self) -> PipelineProblem | None:
        """What stages are judged against: the plan's own times, or those that the run was made for
        where its plan has taken up what was measured since."""
        return self.problem if self.request.expected is None else self.request.expected

    @cached_property
    def base(self) -> PipelineProblem | None:
        """With measured times where there are any."""
        if self.problem is None or self.profile is None:
            return self.problem
        return with_measured_times(self.problem, self.profile)

    @cached_property
    def is_small(self) -> bool:
        """Whether schedules of the problem are timed here."""
        return self.problem is not None and self.problem.operations <= LARGEST_OPERATIONS

    @cached_property
    def orders(self) -> Orders | None:
        """Those of the plan that runs, if it has every operation once and is small."""
        problem, ops = self.problem, self.request.ops
        if problem is None or ops is None or not self.is_small:
            return None
        if not _has_each_once(problem, ops):
            return None
        orders = orders_of(problem, ops)
        try:
            check_complete(problem, orders)
        except OrderError:
            return None
        return orders

    @cached_property
    def rank_orders(self) -> RankOrders | None:
        """What each rank runs: as given, or by the plan's starts; None of more than `MOST_ORDERED`
        operations."""
        request = self.request
        if request.orders is not None:
            return request.orders
        if request.problem is None or request.ops is None or self.has_too_long_a_plan:
            return None
        return rank_orders(request.problem, request.ops)

    @property
    def has_too_long_a_plan(self) -> bool:
        """Whether the plan has too many operations for its orders to be followed here."""
        return self.request.ops is not None and len(self.request.ops) > MOST_ORDERED

    @cached_property
    def wait_cycle(self) -> list[tuple[int, Cell]]:
        """Ranks that wait for each other; none where their orders are not known."""
        return [] if self.rank_orders is None else wait_cycle(self.rank_orders)

    @cached_property
    def infeasibility(self) -> Infeasibility | None:
        """Why nothing fits; None if something does, or where `decides_fit` is not so."""
        if not self.decides_fit or self.problem is None:
            return None
        return find_infeasibility(self.problem)

    @cached_property
    def decides_fit(self) -> bool:
        """Whether it is told here if any schedule fits."""
        if self.problem is None or not self.is_small:
            return False
        sharing = [0] * len(self.problem.hosts)
        for stage in self.problem.stages:
            host = self.problem.devices[stage.device].host
            if host is not None and self.problem.hosts[host].memory_bytes is not None:
                sharing[host] += 1
        return max(sharing, default=0) <= MOST_CHUNKS_OF_A_HOST

    @cached_property
    def bound_ns(self) -> int | None:
        """A proven lower bound of the objective with the planned times."""
        return None if self.problem is None else self.bound_of(self.problem)

    def bound_of(self, problem: PipelineProblem) -> int | None:
        """Of a problem's objective; None where it is too large."""
        if problem.operations > LARGEST_OPERATIONS:
            return None
        key = id(problem)
        if key not in self._bounds:
            # The problem is kept so that no other one gets its id.
            self._bounds[key] = problem, lower_bounds(problem)[0].value_ns
        return self._bounds[key][1]

    @cached_property
    def curves(self) -> dict[Kind, list[Point]]:
        """Predicted throughput by degree of each kind of parallelism, the global batch kept."""
        described = self.request.described
        if described is None:
            return {}
        return {kind: curve_of(described.costs, described.training, kind).points for kind in Kind}

    def why_not(self, *, needs_fit: bool = True) -> str | None:
        """Why nothing can be predicted; None if something can."""
        if self.problem is None:
            return NO_PROBLEM
        if not self.is_small:
            return TOO_LARGE
        if needs_fit and self.infeasibility is not None:
            return NOTHING_FITS
        return NO_TIME if self._is_late else None

    @property
    def _is_late(self) -> bool:
        return self._heuristics_left_s < LEAST_S or time.thread_time() >= self._ends

    def retimed(self, problem: PipelineProblem) -> Timed | None:
        """The plan's orders timed on another problem of the shape; its limits are ignored where it
        does not keep to them. None without a plan."""
        if self.orders is None or not self.is_small:
            return None
        return timed_orders(problem, self.orders, "the plan's orders timed exactly")

    @cached_property
    def planned(self) -> Timed | None:
        """The plan with the times that it was made for."""
        return None if self.problem is None else self.retimed(self.problem)

    @cached_property
    def running(self) -> Timed | None:
        """The plan on `base`; where none was given, what the heuristic makes of it."""
        if self.base is None:
            return None
        timed = self.planned if self.base is self.problem else self.retimed(self.base)
        if timed is not None or self.request.ops is not None:
            return timed
        schedule = self.heuristic(self.base)
        if schedule is None:
            return None
        return Timed(schedule, "no plan was given: the schedule of the heuristic AdaOffload")

    def again(self, problem: PipelineProblem) -> Timed | None:
        """What runs, with the numbers of another problem of the shape; None too if it is late."""
        running = self.running
        if running is None or self.base is None or time.thread_time() >= self._ends:
            return None
        if self.orders is not None:
            return self.retimed(problem)
        orders = orders_of(self.base, running.schedule.ops)
        return timed_orders(problem, orders, "the heuristic's orders timed exactly")

    def heuristic(
        self, problem: PipelineProblem, settings: AdaOffloadSettings | None = None
    ) -> Schedule | None:
        """A plan that fits, within `HEURISTIC_S`: the better of AdaOffload's and, unless settings
        are given, the running plan carried over. None: too large, too late, or nothing fits."""
        key = id(problem), settings
        if key not in self._heuristics:
            self._heuristics[key] = problem, self._searched(problem, settings)
        return self._heuristics[key][1]

    def _searched(
        self, problem: PipelineProblem, settings: AdaOffloadSettings | None
    ) -> Schedule | None:
        if problem.operations > LARGEST_OPERATIONS or self._is_late:
            return None
        begun = time.thread_time()
        stands_in = self.request.ops is None and problem is self.base
        most_s = STAND_IN_S if stands_in else HEURISTIC_S
        ends = begun + min(self._heuristics_left_s, most_s)
        found: list[Schedule] = []
        is_alike = self.problem is not None and same_shape(self.problem, problem)
        if settings is None and self.orders is not None and is_alike:
            found = carried_over(problem, self.orders, ends)
        found += dispatched(problem, settings, self.bound_of(problem) or 0, ends)
        self._heuristics_left_s -= time.thread_time() - begun
        return min(found, key=lambda own: objective_ns(problem, own), default=None)


def _has_each_once(problem: PipelineProblem, ops: tuple[TimedOp, ...]) -> bool:
    tokens = {op.token for op in ops}
    pairs = {(s, m) for op, s, m in tokens if op == "O"}
    return (
        len(tokens) == len(ops)
        and pairs == {(s, m) for op, s, m in tokens if op == "R"}
        and all(
            0 <= s < len(problem.stages) and 0 <= m < problem.micro_batches for _, s, m in tokens
        )
    )


def with_limits(problem: PipelineProblem, limits: dict[int, int | None]) -> PipelineProblem:
    """The problem with other limits of activations on some devices."""
    return replace(
        problem,
        devices=tuple(
            replace(device, activation_memory_bytes=limits[d]) if d in limits else device
            for d, device in enumerate(problem.devices)
        ),
    )
