"""From a solver's values to a schedule: its order is read, and its times computed exactly."""

from __future__ import annotations

from contextlib import suppress

from planner.errors import OrderError
from planner.pipeline.late_starts import start_late
from planner.pipeline.milp.model import PipelineModel
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import Objective, PipelineProblem
from planner.pipeline.schedule import Schedule, TimedOp
from planner.pipeline.timing import orders_of, schedule_from_ops, time_orders
from planner.pipeline.verify import verify


def read_schedule(
    problem: PipelineProblem, model: PipelineModel, values: list[float]
) -> Schedule | None:
    """The best of the solver's own times, put on the objective's grid, and the earliest times of
    its order, for the steady span with starts put off; None if none is valid."""
    ops = _timed_ops(model, values)
    candidates = [schedule_from_ops(problem, ops)]
    # Rounding can turn a tie around; then the solver's own times may still stand.
    with suppress(OrderError):
        candidates.append(time_orders(problem, orders_of(problem, ops)))
        if problem.objective is Objective.STEADY_SPAN:
            candidates.append(start_late(problem, candidates[-1]))
    valid = [schedule for schedule in candidates if not verify(problem, schedule)]
    return min(reversed(valid), key=lambda s: objective_ns(problem, s), default=None)


def _timed_ops(model: PipelineModel, values: list[float]) -> list[TimedOp]:
    build = model.build
    ops = []
    for i, token in enumerate(build.graph.tokens):
        if token.op in "OR":
            decision = build.offload(i)
            chosen = decision.constant
            if not decision.is_settled:
                chosen = round(values[decision.column])
            if not chosen:
                continue
        start = values[build.starts[i]] * build.unit_ns / model.grid_ns
        start_ns = max(0, round(start)) * model.grid_ns
        ops.append(TimedOp(*token, start_ns, start_ns + build.graph.duration[i]))
    return ops
