"""AdaOffload: schedules with activation offload, chosen from a small portfolio of policies.

The three phases, after the AdaOffload heuristic of OptPipe: (1) as many forwards as fit before
the first backward, each starting at the latest of the previous forward's end, the offload's end
that makes room for it, and its arrival from the previous stage; (2) first backwards delayed by at
most a tolerance where that lets more forwards run; (3) PipeOffload's conservative order where a
link is busier than 85 % or memory is short. The list scheduler carries out each policy under
every rule of the problem; the best outcome by the problem's objective is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from planner.errors import Interrupted
from planner.pipeline.dispatch.admission import needed_offloads
from planner.pipeline.dispatch.policy import DispatchPolicy, every, nothing, unlimited
from planner.pipeline.dispatch.policy_search import (
    Mutation,
    PolicySearch,
    cap_mutations,
    depth_profile,
    offload_mutations,
    order_mutations,
)
from planner.pipeline.feasibility.decide import sequential_schedule
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule, TimedOp
from planner.pipeline.timing import orders_of, schedule_from_ops, time_orders

BUSY_LINK = 0.85
CONSERVATIVE_THRESHOLD = 0.8
BUDGET_OPERATIONS = 80_000
LEAST_POLICIES = 6
PATIENCE = 150


@dataclass(frozen=True)
class AdaOffloadSettings:
    """Settings of the heuristic.

    `offload_strategy`: `aggressive` offloads wherever the link is free, `conservative` only where
    more than the threshold's share of a device's memory is in use; None tries both and keeps the
    better. `offload_threshold` is the share of the limit above which offloading starts; None
    leaves it at 0.8 for `conservative` and at nothing for `aggressive`.
    """

    backward_delay_tolerance_ns: int = 5_000_000
    offload_strategy: Literal["aggressive", "conservative"] | None = None
    offload_threshold: float | None = None

    @property
    def thresholds(self) -> tuple[float | None, ...]:
        """Shares of the limit above which offloading may start; None is always."""
        if self.offload_threshold is not None:
            return (self.offload_threshold,)
        if self.offload_strategy == "aggressive":
            return (None,)
        if self.offload_strategy == "conservative":
            return (CONSERVATIVE_THRESHOLD,)
        return (None, CONSERVATIVE_THRESHOLD)


def adaoffload(
    problem: PipelineProblem,
    settings: AdaOffloadSettings | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    *,
    lower_bound_ns: int = 0,
) -> Schedule:
    """The best valid schedule that the portfolio finds; one exists for every feasible problem.

    The answer depends only on the arguments, except that `should_stop` ends the search early. So
    does a schedule that meets `lower_bound_ns`, a proven bound of the problem's objective.
    Raises `OrderError` if the problem is infeasible. Told to stop before there is any answer, it
    runs one micro-batch at a time.
    """
    settings = settings or AdaOffloadSettings()
    needed = needed_offloads(problem)
    if needed is None:
        return sequential_schedule(problem)
    search = PolicySearch(problem, needed, _budget(problem), should_stop, lower_bound_ns)
    try:
        search.consider_all(_openings(problem, settings))
    except Interrupted:
        return sequential_schedule(problem)
    assert search.policy is not None
    search.consider_all(_fall_backs(problem, settings, search.policy, search.ops))
    search.improve(_mutations(problem, settings), Random(0), PATIENCE)
    return _compact(problem, search.ops)


def _budget(problem: PipelineProblem) -> int:
    return max(BUDGET_OPERATIONS, LEAST_POLICIES * problem.operations)


def _openings(problem: PipelineProblem, settings: AdaOffloadSettings) -> Iterator[DispatchPolicy]:
    """Phases 1 and 2: fill memory with forwards; 1F1B's and half its depth; with and without
    waiting for backwards that are about to arrive."""
    selection = every(problem, 1, 1) if problem.can_offload else nothing(problem)
    free = unlimited(problem)
    greedy = DispatchPolicy(
        in_flight=free,
        held=free,
        warm_up=(0,) * len(free),
        first_backward_delay_ns=settings.backward_delay_tolerance_ns,
        offload=selection,
        offload_above=settings.thresholds[0],
    )
    patient = replace(greedy, first_backward_delay_ns=0, weight_delay_ns=0)
    depth = len(problem.devices)
    for base in (patient, greedy):
        yield base
        for slope, extra in ((1.0, 0), (0.5, 2), (1.0, 2), (2.0, -1)):
            yield replace(base, in_flight=depth_profile(problem, slope, extra))
    yield replace(patient, in_flight=depth_profile(problem, 1.0, 0), held=(depth,) * len(free))
    if problem.can_offload:
        for threshold in settings.thresholds[1:]:
            yield replace(patient, offload_above=threshold)
        yield replace(patient, newest_offload_first=True)
        yield replace(patient, reload_slack=1.5)


def _fall_backs(
    problem: PipelineProblem,
    settings: AdaOffloadSettings,
    policy: DispatchPolicy,
    ops: list[TimedOp],
) -> Iterator[DispatchPolicy]:
    """Phase 3: PipeOffload's order, half of the activations and a 1F1B depth, where a link is
    busier than 85 % or a device's memory runs full."""
    busy_ns: dict[tuple[str, str], int] = defaultdict(int)
    for op in ops:
        if op.op in "OR":
            busy_ns[problem.channel(op.stage, op.op)] += op.end_ns - op.start_ns
    if not busy_ns:
        return
    schedule = schedule_from_ops(problem, ops)
    hot = {
        s
        for s, stage in enumerate(problem.stages)
        if any(
            busy_ns[problem.channel(s, op)] > BUSY_LINK * schedule.makespan_ns for op in ("O", "R")
        )
        or (
            (limit := problem.devices[stage.device].activation_memory_bytes) is not None
            and schedule.peak_memory_bytes[stage.device] + min(stage.activation_bytes) > limit
        )
    }
    half, depth = every(problem, 1, 2), depth_profile(problem, 1.0, 0)
    conservative = replace(
        policy,
        offload=tuple(half[s] if s in hot else row for s, row in enumerate(policy.offload)),
        offload_above=settings.thresholds[-1],
    )
    yield conservative
    yield replace(
        conservative,
        in_flight=tuple(depth[s] if s in hot else cap for s, cap in enumerate(policy.in_flight)),
    )


def _mutations(problem: PipelineProblem, settings: AdaOffloadSettings) -> list[Mutation]:
    mutations = cap_mutations(problem)
    mutations += order_mutations(problem, settings.backward_delay_tolerance_ns)
    if problem.can_offload:
        mutations += offload_mutations(problem, settings.thresholds)
    return mutations


def _compact(problem: PipelineProblem, ops: list[TimedOp]) -> Schedule:
    """The schedule, timed again in its own orders: reloads and what waits for them move forward."""
    return time_orders(problem, orders_of(problem, ops))
