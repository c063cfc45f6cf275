"""The plan that a run has when it is posted: checked, and written as answers write theirs."""

from __future__ import annotations

from app.errors import InvalidRequest
from app.schemas.runs import GivenPlan
from app.services.resolutions import json_text
from planner.errors import OrderError
from planner.pipeline.documents import problem_to_document
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule, TimedOp
from planner.pipeline.timing import schedule_from_ops
from planner.pipeline.verify import verify

SHOWN = 3
"""Violations that an error repeats."""


def given_document(problem: PipelineProblem, plan: GivenPlan) -> tuple[str, int]:
    """Problem and schedule of a verified plan as JSON text, and its makespan.

    Raises `InvalidRequest` that says which rules the plan breaks.
    """
    ops = [TimedOp(op.op, op.stage, op.micro_batch, op.start_ns, op.end_ns) for op in plan.ops]  # type: ignore[arg-type]
    schedule = _verified(problem, ops)
    document = {
        "problem": problem_to_document(problem),
        "schedule": schedule.to_document(None),
    }
    return json_text(document), schedule.makespan_ns


def _verified(problem: PipelineProblem, ops: list[TimedOp]) -> Schedule:
    for op in ops:
        if op.stage >= len(problem.stages) or op.micro_batch >= problem.micro_batches:
            raise _refused(
                f"has an operation of stage {op.stage}, micro-batch {op.micro_batch}, and the "
                f"problem has {len(problem.stages)} stages and {problem.micro_batches} "
                "micro-batches."
            )
    try:
        schedule = schedule_from_ops(problem, ops)
    except (OrderError, KeyError, ValueError) as error:
        raise _refused(f"cannot be executed: {error}.") from error
    violations = verify(problem, schedule)
    if violations:
        shown = "; ".join(map(str, violations[:SHOWN]))
        more = len(violations) - SHOWN
        raise _refused(f"breaks rules: {shown}{f'; and {more} more' if more > 0 else ''}.")
    return schedule


def _refused(message: str) -> InvalidRequest:
    return InvalidRequest.of(
        "plan.ops",
        message,
        "Give the operations of a schedule for this problem, or leave `plan` out to have one made.",
    )
