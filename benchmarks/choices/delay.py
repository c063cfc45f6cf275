"""The bubble against T, how long AdaOffload may delay the first backwards for more forwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.pipeline.adaoffload import AdaOffloadSettings, adaoffload
from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.pipeline.dispatch.list_scheduling import dispatch
from planner.pipeline.dispatch.policy import DispatchPolicy, every, unlimited
from planner.pipeline.orders import orders_of
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.pipeline.timing import time_orders
from planner.pipeline.verify import verify

NS_PER_MS = 1_000_000
DELAYS_MS = (0.0, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0)


@dataclass(frozen=True)
class Delayed:
    """One problem: makespans (ns) by T (ms) of the rule alone and of AdaOffload, the best proven
    bound, and what the verifier has against any of the schedules."""

    name: str
    problem: PipelineProblem
    delays_ms: Sequence[float]
    alone_ns: Sequence[int]
    adaoffload_ns: Sequence[int]
    bound_ns: int
    wrong: Sequence[str]


def delayed(name: str, problem: PipelineProblem, delays_ms: Sequence[float] = DELAYS_MS) -> Delayed:
    """Both ways with every T."""
    tolerances_ns = [round(delay_ms * NS_PER_MS) for delay_ms in delays_ms]
    alone = [rule_alone(problem, tolerance_ns) for tolerance_ns in tolerances_ns]
    best = [
        adaoffload(problem, AdaOffloadSettings(backward_delay_tolerance_ns=tolerance_ns))
        for tolerance_ns in tolerances_ns
    ]
    return Delayed(
        name=name,
        problem=problem,
        delays_ms=delays_ms,
        alone_ns=[schedule.makespan_ns for schedule in alone],
        adaoffload_ns=[schedule.makespan_ns for schedule in best],
        bound_ns=lower_bounds(problem)[0].value_ns,
        wrong=list(_wrong(problem, [*alone, *best])),
    )


def rule_alone(problem: PipelineProblem, tolerance_ns: int) -> Schedule:
    """As many forwards as memory takes, every activation offloaded whenever its link is free, and
    first backwards put off by at most the tolerance where that lets a forward run: one dispatch,
    with no other policy tried."""
    free = unlimited(problem)
    policy = DispatchPolicy(
        in_flight=free,
        held=free,
        warm_up=(0,) * len(free),
        first_backward_delay_ns=tolerance_ns,
        offload=every(problem, 1, 1),
    )
    return time_orders(problem, orders_of(problem, dispatch(problem, policy)))


def _wrong(problem: PipelineProblem, schedules: Sequence[Schedule]) -> Iterator[str]:
    for schedule in schedules:
        yield from (str(violation) for violation in verify(problem, schedule)[:1])
