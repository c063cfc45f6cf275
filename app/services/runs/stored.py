"""What is stored of a run, read for whoever applies its rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from app.callers import Caller
from app.errors import RunNotFound
from app.repositories.run_rows import RunReader, RunRow
from app.repositories.run_telemetry import TelemetryRepository
from app.services.runs.memory import window_of
from planner.following.state import RunState
from planner.following.telemetry import Sample
from planner.pipeline.documents import read_problem


def row_of(reader: RunReader, caller: Caller, run_id: str) -> RunRow:
    """The caller's run. Raises `RunNotFound`."""
    row = reader.one(caller.tenant, run_id)
    if row is None:
        raise RunNotFound(f"There is no run {run_id}.")
    return row


def stored_request(reader: RunReader, run_id: str) -> dict[str, Any]:
    """What was posted, without a plan, and with the calibration that its cluster names in full."""
    request: dict[str, Any] = json.loads(reader.document(run_id, "request") or "{}")
    return request


def stored_state(reader: RunReader, run_id: str) -> RunState:
    """What is remembered of a run."""
    texts = [reader.document(run_id, name) for name in ("problem", "state")]
    problem, state = (json.loads(text or "null") for text in texts)
    return RunState.from_document(state, read_problem(problem))


def stored_samples(connection: Connection, row: RunRow, state: RunState) -> Sequence[Sample]:
    """What was reported of the run's shape in the window that estimates are made from."""
    if row.newest_iteration is None:
        return ()
    window = state.settings.window
    rows = TelemetryRepository(connection).window(row.id, row.newest_iteration - window + 1)
    samples = window_of({}, rows, row.newest_iteration, window)
    return state.of_its_shape(list(samples.values()))


def stored_plan(reader: RunReader, run_id: str, version: int | None) -> Mapping[str, Any] | None:
    """Problem and schedule of a version; None where there is none (any more)."""
    text = None if version is None else reader.version_document(run_id, version)
    plan: Mapping[str, Any] | None = None if text is None else json.loads(text)
    return plan
