"""From stored runs to observations of the cost model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.database import Database
from app.repositories.run_rows import RunReader, RunRow
from app.repositories.run_telemetry import TelemetryRepository
from app.services.runs.making import stored_state
from app.services.runs.memory import window_of
from planner.following.estimates import estimates_of
from planner.following.state import RunState, same_shape
from planner.following.telemetry import Sample

if TYPE_CHECKING:
    from planner.calibration.observations import Observation
    from planner.pipeline.schedule import TimedOp


PEAK = "peak_memory_bytes"


@dataclass(frozen=True)
class StoredRun:
    """A run: its request, what is remembered of it, its window, and the plan that it runs."""

    row: RunRow
    request: Mapping[str, Any]
    state: RunState
    samples: Sequence[Sample]
    plan: Mapping[str, Any] | None


def observation_of(database: Database, row: RunRow, gpu: str | None) -> Observation | None:
    """What the run says of the cost model; None of a run on another kind of GPU than this.

    Raises `NotCounted`.
    """
    from planner.calibration.observe import gpu_of, observe

    request = _request(database, row)
    if gpu is not None and gpu_of(request) != gpu:
        return None
    gpu_of(request)
    run = _stored(database, row, request)
    estimates = estimates_of(run.samples, run.state.counts)
    reports_peaks = any(quantity == PEAK for _, quantity in estimates)
    ops = _ops(run) if reports_peaks else ()
    return observe(row.id, run.request, run.state.base, estimates, ops)


def _request(database: Database, row: RunRow) -> Mapping[str, Any]:
    with database.looking() as connection:
        text = RunReader(connection).document(row.id, "request")
    request: Mapping[str, Any] = json.loads(text or "{}")
    return request


def _stored(database: Database, row: RunRow, request: Mapping[str, Any]) -> StoredRun:
    with database.reading() as session:
        connection = session.connection()
        reader = RunReader(connection)
        state = stored_state(reader, row.id)
        window = state.settings.window
        first = 0 if row.newest_iteration is None else row.newest_iteration - window + 1
        rows = TelemetryRepository(connection).window(row.id, first)
        plan = None
        if row.running_version is not None:
            plan = reader.version_document(row.id, row.running_version)
    samples = list(window_of({}, rows, row.newest_iteration, window).values())
    return StoredRun(row, request, state, samples, None if plan is None else json.loads(plan))


def _ops(run: StoredRun) -> Sequence[TimedOp]:
    """The operations of the plan that runs, if it is of the shape that is followed."""
    from planner.pipeline.documents import read_problem
    from planner.pipeline.replacement import running_schedule

    if run.plan is None or not same_shape(read_problem(run.plan["problem"]), run.state.base):
        return ()
    return running_schedule(run.plan["schedule"]).ops
