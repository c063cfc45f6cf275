"""The columns and rows that show what a run's state says: of its size, and of its versions."""

from __future__ import annotations

from typing import Any

from app.database import clock_ms
from app.observability import metrics
from app.repositories.runs import RunRepository
from planner.following.state import RunState
from planner.following.versions import VersionRecord

MIRRORED = ("state", "apply_at_iteration", "measured_gain")
"""What changes of a version once it is published."""


def size_columns(state: RunState) -> dict[str, int]:
    """What `runs` has of the size of the problem and of the settings."""
    return {
        "stages": len(state.base.stages),
        "ranks": state.ranks,
        "kept_iterations": state.settings.window,
    }


def plan_columns(state: RunState) -> dict[str, Any]:
    """What `runs` has of the versions."""
    newest = state.newest
    running = None if state.running is None else state.version(state.running)
    return {
        "newest_version": None if newest is None else newest.number,
        "newest_state": None if newest is None else newest.state.value,
        "apply_at_iteration": None if newest is None else newest.apply_at_iteration,
        "running_version": state.running,
        "predicted_gain": None if running is None else running.predicted_gain,
        "measured_gain": None if running is None else running.measured_gain,
    }


def version_columns(version: VersionRecord) -> dict[str, Any]:
    """What `run_versions` has of a version, but for its document."""
    return {
        "version": version.number,
        "state": version.state.value,
        "reason": str(version.reason),
        "published_at_iteration": version.published_at_iteration,
        "apply_at_iteration": version.apply_at_iteration,
        "needs_restart": version.needs_restart,
        "copy_of": version.copy_of,
        "predicted_gain": version.predicted_gain,
        "gain_low": version.gain_low,
        "measured_gain": version.measured_gain,
    }


def mirror_versions(runs: RunRepository, run_id: str, before: RunState, after: RunState) -> None:
    """Bring the rows of versions that there were up to date."""
    for old, new in zip(before.versions, after.versions, strict=False):
        if old != new:
            columns = {name: getattr(new, name) for name in MIRRORED}
            runs.change_version(run_id, new.number, **columns | {"state": new.state.value})


def changed_plan(state: RunState) -> dict[str, Any]:
    """The columns of `runs` where something about its versions has changed."""
    return {**plan_columns(state), "plan_changed_at": clock_ms()}


def count_versions(before: RunState, after: RunState) -> None:
    """Count the states that versions have reached."""
    known = {version.number: version.state for version in before.versions}
    for version in after.versions:
        if known.get(version.number) != version.state:
            metrics.run_version_became(version.state.value)
