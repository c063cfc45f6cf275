"""From the solver's values to a schedule: its order is read, and its times computed exactly."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from planner.errors import OrderError
from planner.pipeline.cp_sat.scope import Scope
from planner.pipeline.cp_sat.solving import Assignment
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule, TimedOp
from planner.pipeline.timing import orders_of, schedule_from_ops, time_orders
from planner.pipeline.verify import verify


def decided_ops(scope: Scope, found: Assignment) -> list[TimedOp]:
    """The operations that a model decided, with the solver's times; absent transfers left out."""
    ops = []
    for i, start in found.starts.items():
        token = scope.graph.tokens[i]
        if token.op in "OR" and not found.offloads.get((token.stage, token.micro_batch), True):
            continue
        start_ns = start * scope.scale.unit_ns
        ops.append(TimedOp(*token, start_ns, start_ns + scope.graph.duration[i]))
    return ops


def best_schedule(problem: PipelineProblem, ops: Iterable[TimedOp]) -> Schedule | None:
    """The better of the given times and the earliest times of their order; None if neither is
    valid."""
    candidates = [schedule_from_ops(problem, ops)]
    with suppress(OrderError):
        candidates.append(time_orders(problem, orders_of(problem, candidates[0].ops)))
    valid = [schedule for schedule in candidates if not verify(problem, schedule)]
    return min(reversed(valid), key=lambda s: objective_ns(problem, s), default=None)
