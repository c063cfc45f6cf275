"""Runs and their versions as they are shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from app.models import RunStatus, SolveState
from app.repositories.job_rows import JobRow
from app.repositories.run_rows import EventRow, RunRow, VersionRow
from app.root_path import public_path
from app.schemas.runs import (
    AdaptedView,
    DriftView,
    EventView,
    PlanView,
    QuantityView,
    ReSolveView,
    RunAccepted,
    RunItem,
    RunLinks,
    RunStageView,
    RunView,
    VersionView,
)
from app.schemas.times import instant, known_instant
from planner.following.adapt import adapted
from planner.following.drift import Drift, drifts, expected
from planner.following.estimates import Estimate, Key, estimates_of, series_of
from planner.following.profile import believed, disbelieved
from planner.following.solve_records import Reason
from planner.following.state import RunState
from planner.following.telemetry import MEMORY_DELTAS, Sample
from planner.following.versions import VersionState


def links_of(row: RunRow) -> RunLinks:
    """Addresses of what belongs to a run."""
    own = public_path(f"/v1/runs/{row.id}")
    return RunLinks(
        self=own,
        telemetry=f"{own}/telemetry",
        plan=f"{own}/plan",
        diagnosis=f"{own}/diagnosis",
        proposals=f"{own}/proposals",
        job=None if row.job_id is None else public_path(f"/v1/jobs/{row.job_id}"),
    )


def accepted_view(row: RunRow) -> RunAccepted:
    """A run that was just made."""
    return RunAccepted(
        id=row.id,
        name=row.name,
        state=RunStatus(row.state),
        job_id=row.job_id,
        links=links_of(row),
    )


def run_item(row: RunRow) -> RunItem:
    """A run in a list."""
    return RunItem(
        id=row.id,
        name=row.name,
        state=RunStatus(row.state),
        model=row.model,
        created_at=known_instant(row.created_at),
        stopped_at=instant(row.stopped_at),
        telemetry_at=instant(row.telemetry_at),
        newest_iteration=row.newest_iteration,
        newest_version=row.newest_version,
        newest_state=None if row.newest_state is None else VersionState(row.newest_state),
        apply_at_iteration=row.apply_at_iteration,
        running_version=row.running_version,
        predicted_gain=row.predicted_gain,
        measured_gain=row.measured_gain,
        links=links_of(row),
    )


def run_view(
    row: RunRow,
    state: RunState,
    samples: Sequence[Sample],
    versions: Sequence[VersionRow],
    acknowledged: Mapping[int, int],
    holders: Mapping[int, Mapping[int, int]],
    events: Sequence[EventRow],
    job: JobRow | None,
) -> RunView:
    """A run with everything about it but its plans; `samples` are those of its shape."""
    estimates = estimates_of(samples, state.counts)
    return RunView(
        **run_item(row).model_dump(),
        stages_count=row.stages,
        ranks=row.ranks,
        versions=[
            _version_view(
                row,
                one,
                acknowledged.get(one.version, 0),
                state.missing_ranks(holders.get(one.version, {}))
                if one.state == VersionState.PUBLISHED
                else [],
            )
            for one in versions
        ],
        stages=_stages(state, samples, estimates),
        re_solve=_re_solve(state, job),
        events=[_event(event) for event in events],
        adapted=AdaptedView(**adapted(state.base, estimates).to_document()),
        settings=state.settings,
    )


def plan_text(row: RunRow, version: VersionRow, document: str | None) -> str:
    """A version as JSON text; `document` has its problem and schedule, which may be megabytes."""
    view = PlanView(
        version=version.version,
        state=VersionState(version.state),
        apply_at_iteration=version.apply_at_iteration,
        running_version=row.running_version,
        needs_restart=version.needs_restart,
        reason=Reason(version.reason),
        copy_of=version.copy_of,
        predicted_gain=version.predicted_gain,
        gain_low=version.gain_low,
        measured_gain=version.measured_gain,
        makespan_ns=version.makespan_ns,
        created_at=known_instant(version.created_at),
        published_at_iteration=version.published_at_iteration,
        job_id=version.job_id,
    )
    head = view.model_dump_json(exclude={"problem", "schedule"})
    return head if document is None else f"{head[:-1]},{document.lstrip()[1:]}"


def _version_view(
    row: RunRow, version: VersionRow, acknowledged: int, missing: list[int]
) -> VersionView:
    own = version._asdict() | {"created_at": known_instant(version.created_at)}
    return VersionView(**own, acknowledged=acknowledged, of=row.ranks, missing_ranks=missing)


def _re_solve(state: RunState, job: JobRow | None) -> ReSolveView | None:
    if job is None or state.solving is None:
        return None
    return ReSolveView(
        job_id=job.id,
        state=SolveState(job.state),
        reason=state.solving.reason,
        since_iteration=state.solving.asked_at_iteration,
    )


def _event(event: EventRow) -> EventView:
    return EventView(**event._asdict() | {"at": known_instant(event.at)})


def _stages(
    state: RunState, samples: Sequence[Sample], estimates: Mapping[Key, Estimate]
) -> list[RunStageView]:
    series = series_of(samples, state.counts)
    found = drifts(state.base, state.anchor, believed(estimates), series)
    without = disbelieved(estimates)
    moved = {(drift.stage, drift.quantity): drift for drift in found}
    stages: dict[int, dict[str, QuantityView]] = {}
    for key, estimate in sorted(estimates.items()):
        stage, quantity = key
        view = _estimate(state, key, estimate, moved.get(key))
        if quantity in MEMORY_DELTAS:
            view.disbelieved = without.get(stage)
        stages.setdefault(stage, {})[quantity] = view
    return [RunStageView(stage=stage, quantities=own) for stage, own in stages.items()]


def _estimate(state: RunState, key: Key, own: Estimate, drift: Drift | None) -> QuantityView:
    made_for = expected(state.base, state.anchor, key)
    return QuantityView(
        value=own.value,
        error=own.error,
        noise=own.noise if math.isfinite(own.noise) else None,
        confidence=own.confidence,
        samples=own.samples,
        outliers=own.outliers,
        since=own.since,
        planned=None if made_for is None else made_for.value,
        drift=None
        if drift is None
        else DriftView(
            kind=drift.kind,
            before=drift.before,
            after=drift.after,
            noise=drift.noise,
            since=drift.since,
        ),
    )
