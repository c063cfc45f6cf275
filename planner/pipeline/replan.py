"""Plans for a run that follows one already: its orders are kept, timed again, and improved on.

The running plan was made for times that have changed since. Its orders, timed on the fresh
problem, are the baseline and the first answer of a solve that starts from them, however little
time there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import OrderError
from planner.pipeline.names import StartKind
from planner.pipeline.options import SolveOptions
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.repair import adapted
from planner.pipeline.schedule import Schedule
from planner.pipeline.solve import run
from planner.pipeline.spec import AS_POSTED, Candidate, PipelineSpec
from planner.progress import Reporter, SilentReporter, StopCheck, never


def running_start(
    running: Mapping[str, Any], placement: str = AS_POSTED, **origin: Any
) -> dict[str, Any]:
    """What a solve takes as its `start`, from the schedule document of a running plan.

    `origin` comes back in the answer's `provenance.started_from`, beside `kind`, the re-timed
    running orders' `objective_ns`, and `kept`: whether the orders still keep every limit.
    """
    return {
        "placement": placement,
        "found_by": None,
        "schedule": running,
        "origin": {"kind": StartKind.RUNNING_PLAN, **origin},
    }


def replan(
    problem: PipelineProblem,
    running: Mapping[str, Any] | Schedule,
    options: SolveOptions,
    reporter: Reporter | None = None,
    should_stop: StopCheck = never,
) -> dict[str, Any]:
    """The answer of a solve of the fresh problem that starts from the running schedule.

    `running` is a schedule document (its `ops` suffice, its `waits` count too) or a schedule. The
    plan is verified and never worse than the running orders re-timed, if these keep the limits.
    """
    spec = PipelineSpec((Candidate(AS_POSTED, problem),), options)
    start = running_start(_document(running))
    return run(spec.to_document(), reporter or SilentReporter(), should_stop, start)


def retimed(problem: PipelineProblem, running: Mapping[str, Any] | Schedule) -> Schedule:
    """The running orders timed and verified on the fresh problem.

    Raises `OrderError` where they are of another shape or do not keep its limits.
    """
    found = adapted(problem, _document(running)["ops"], lambda: True)
    if not found.kept:
        raise OrderError("the running orders do not keep the limits of this problem")
    return found.schedule


def _document(running: Mapping[str, Any] | Schedule) -> Mapping[str, Any]:
    return running.to_document(None) if isinstance(running, Schedule) else running
