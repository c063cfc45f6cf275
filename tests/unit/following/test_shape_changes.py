"""Runs whose shape changes: what of the old shape still counts, and the restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.following.look import Solved
from planner.following.solve_records import Reason
from planner.following.state import changed
from planner.following.step import step
from planner.following.versions import VersionState
from tests.unit.following.begun import (
    drifted,
    named,
    published,
    reshaped,
    smaller,
)
from tests.unit.following.runs import (
    SETTINGS,
    Run,
    samples,
    succeeded,
)


def test_the_first_plan_of_another_shape_is_asked_for_again_at_once() -> None:
    run = drifted()
    reshaped(run, 52)
    run.samples = []
    for number in (2, 3):
        assert run.at(52, Solved(number, "failed")) == ["solve_failed", "solve_asked"]
        assert run.state.solving is not None
        assert run.state.solving.reason == Reason.SHAPE_CHANGE
    assert run.at(52, Solved(4, "failed")) == ["solve_failed"]
    assert run.at(52 + SETTINGS.cool_down_iterations) == ["solve_asked"]


def test_another_shape_is_planned_from_scratch_and_needs_a_restart() -> None:
    run = drifted()
    outcome = reshaped(run, 52)
    assert outcome.drop_solve
    assert outcome.solve is not None
    assert (outcome.solve.reason, outcome.solve.start_version) == ("shape_change", None)
    assert len(outcome.solve.problem.stages) == 2
    kinds = run.at(52, Solved(outcome.solve.number, "succeeded"))
    assert kinds == ["published"]
    version = run.state.version(2)
    assert version.needs_restart
    run.acknowledge(2, 60, ranks=[0, 1])
    assert run.at(52) == ["scheduled"]
    assert run.state.version(2).apply_at_iteration == 60


def test_another_shape_gives_up_what_was_scheduled() -> None:
    run = published()
    run.acknowledge(2, 58)
    run.at(60)
    reshaped(run, 61)
    assert run.state.version(2).state is VersionState.SUPERSEDED
    assert run.state.running is None


def test_a_plan_of_the_old_shape_that_comes_late_is_not_published() -> None:
    run = drifted()
    solved = succeeded(run.state)
    run.state = changed(run.state, smaller(), SETTINGS, 52)
    outcome = step(run.state, run.look(52, solved))
    assert outcome.publish is None
    assert outcome.drop_solve
    assert outcome.solve is not None
    assert outcome.solve.reason == Reason.SHAPE_CHANGE


def test_telemetry_of_the_old_shape_is_forgotten() -> None:
    run = drifted()
    reshaped(run, 52)
    assert not run.state.counts(52 + SETTINGS.warm_up)
    assert run.state.counts(53 + SETTINGS.warm_up)
    assert run.state.anchor == {}


def awaiting_restart(**of_old_shape: float) -> Run:
    """A run of three stages that goes on as it is while version 2, for two stages, waits."""
    run = drifted()
    reshaped(run, 52)
    run.samples = named(samples(range(200), lambda i, s: 3.0), **of_old_shape)
    assert run.state.solving is not None
    assert run.at(53, Solved(run.state.solving.number, "succeeded")) == ["published"]
    return run


@pytest.mark.parametrize("of_old_shape", [{}, {"plan_version": 1}])
def test_what_the_old_shape_reports_says_nothing_of_the_new_one(
    of_old_shape: dict[str, float],
) -> None:
    run = awaiting_restart(**of_old_shape)
    run.acknowledge(2, 60, ranks=[0])
    kinds = [kind for newest in range(54, 200, 5) for kind in run.at(newest)]
    assert kinds == ["ranks_missing"]
    assert run.state.version(2).state is VersionState.PUBLISHED


def test_a_restart_is_seen_by_the_version_that_ranks_report() -> None:
    run = awaiting_restart()
    restarted = samples(range(80, 200), lambda i, s: 2.0, plan_version=2)
    run.samples = [s for s in run.samples if s.iteration < 80]
    run.samples += [s for s in restarted if s.stage < 2]
    run.state = replace(run.state, ever_acked=True)
    assert run.at(82) == ["scheduled", "running"]
    assert run.state.first_iteration == 80
    outcome = step(run.state, run.look(130))
    assert outcome.solve is not None
    assert [stage.forward_ns[0] for stage in outcome.solve.problem.stages] == pytest.approx(
        [2e6, 2e6], rel=0.01
    )


def test_ranks_that_run_the_old_shape_still_are_left_out_after_the_restart() -> None:
    run = awaiting_restart()
    run.acknowledge(2, 60, ranks=[0, 1])
    assert run.at(60) == ["scheduled", "running"]
    run.samples = samples(range(200), lambda i, s: 3.0, plan_version=1)
    for newest in range(61, 200, 7):
        assert run.at(newest) == []
