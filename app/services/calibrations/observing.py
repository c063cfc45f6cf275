"""From stored runs to observations of the cost model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.database import Database
from app.repositories.run_rows import RunReader, RunRow
from app.services.runs.stored import stored_plan, stored_request, stored_samples, stored_state
from planner.following.estimates import estimates_of
from planner.following.state import same_shape
from planner.pipeline.problem import PipelineProblem

if TYPE_CHECKING:
    from planner.calibration.observations import Observation
    from planner.pipeline.schedule import TimedOp

PEAK = "peak_memory_bytes"


def observation_of(database: Database, row: RunRow, gpu: str | None) -> Observation | None:
    """What the run says of the cost model; None of a run on another kind of GPU than this.

    Raises `NotCounted`.
    """
    from planner.calibration.observe import gpu_of, observe

    with database.reading() as session:
        connection = session.connection()
        reader = RunReader(connection)
        request = stored_request(reader, row.id)
        own_gpu = gpu_of(request)
        if gpu is not None and gpu != own_gpu:
            return None
        state = stored_state(reader, row.id)
        samples = stored_samples(connection, row, state)
        plan = stored_plan(reader, row.id, row.running_version)
    estimates = estimates_of(samples, state.counts)
    reports_peaks = any(quantity == PEAK for _, quantity in estimates)
    ops = _ops(plan, state.base) if plan is not None and reports_peaks else ()
    return observe(row.id, request, state.base, estimates, ops)


def _ops(plan: Mapping[str, Any], base: PipelineProblem) -> Sequence[TimedOp]:
    """The operations of the plan that runs, if it is of the shape that is followed."""
    from planner.pipeline.documents import read_problem
    from planner.pipeline.replacement import running_schedule

    if not same_shape(read_problem(plan["problem"]), base):
        return ()
    return running_schedule(plan["schedule"]).ops
