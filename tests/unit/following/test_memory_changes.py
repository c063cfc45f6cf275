"""Memory limits and sizes that change while a run goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.following.look import Solved
from planner.following.solve_records import Reason
from planner.following.state import changed
from planner.following.step import step
from tests.unit.following.begun import (
    drifted,
    named,
    running,
)
from tests.unit.following.runs import (
    SETTINGS,
    Run,
    problem,
    samples,
    succeeded,
)


def test_a_memory_limit_that_changes_is_planned_for_at_once() -> None:
    own = samples(range(30), memory_limit_bytes=5_000)
    own += samples(range(30, 60), memory_limit_bytes=4_800)
    run = Run(own)
    assert run.at(29) == []
    outcome = step(run.state, run.look(30))
    assert outcome.solve is not None
    assert outcome.solve.reason == Reason.MEMORY_LIMIT_CHANGE
    limits = [device.activation_memory_bytes for device in outcome.solve.problem.devices]
    assert limits == [784] * 3
    assert step(outcome.state, run.look(35)).solve is None


def test_where_the_running_plan_no_longer_fits_a_slower_one_is_published() -> None:
    own = samples(range(30), memory_limit_bytes=5_000)
    own += samples(range(30, 60), memory_limit_bytes=4_800)
    run = Run(own)
    run.at(29)
    run.at(30)
    solved = succeeded(run.state, -0.05)
    assert solved.replacement is not None
    fits = step(run.state, run.look(35, solved))
    assert fits.publish is None
    too_large = replace(solved, replacement={**solved.replacement, "running_fits": False})
    assert step(run.state, run.look(35, too_large)).publish is not None


def test_a_plan_that_memory_asked_for_is_kept_though_it_is_slower() -> None:
    run = running(after=1.06)
    versions = list(run.state.versions)
    versions[1] = replace(versions[1], reason=Reason.MEMORY_LIMIT_CHANGE)
    run.state = replace(run.state, versions=tuple(versions))
    assert run.at(75) == ["confirmed"]
    assert run.state.version(2).measured_gain == pytest.approx(-0.06, abs=0.01)


def test_nothing_is_rolled_back_while_a_plan_for_less_memory_is_looked_for() -> None:
    run = running(after=1.06)
    run.samples = [
        replace(s, values={**s.values, "memory_limit_bytes": 5_000 if s.iteration < 70 else 4_000})
        for s in run.samples
    ]
    assert run.at(69) == []
    assert run.at(70) == ["solve_asked"]
    assert run.at(75) == ["confirmed"]


def test_other_limits_of_the_same_shape_are_planned_for_at_once() -> None:
    run = Run(samples(range(60)))
    run.at(20)
    run.state = changed(run.state, problem(900), SETTINGS, 20)
    outcome = step(run.state, run.look(20))
    assert outcome.solve is not None
    assert (outcome.solve.reason, outcome.solve.start_version) == ("memory_limit_change", 1)


def limits_cut(to_bytes: int = 4_900) -> Run:
    """A solve is in flight since limits, of which 1000 bytes were left, were cut."""
    run = Run(
        samples(range(30), memory_limit_bytes=5_000)
        + samples(range(30, 60), memory_limit_bytes=to_bytes)
    )
    run.at(29)
    run.at(30)
    assert run.state.solving is not None
    return run


@pytest.mark.parametrize("peak", [950, 890])
def test_a_running_plan_that_no_longer_fits_is_told_of(peak: int) -> None:
    run = limits_cut()
    solved = succeeded(run.state, -0.05)
    figures = {"running_fits": False, "running_peaks_bytes": [890, peak, 10]}
    solved = replace(solved, replacement={**(solved.replacement or {}), **figures})
    events = {e.kind: e.detail for e in step(run.state, run.look(35, solved)).events}
    why = "does not fit" if peak > 900 else "does not leave the headroom"
    assert events["published"].endswith(f", since the running plan {why}")
    told = "running plan no longer fits: device 1 needs 950 of 900 bytes"
    assert events.get("running_does_not_fit") == (told if peak > 900 else None)


def test_a_plan_that_is_worth_its_swap_is_not_said_to_be_for_memory() -> None:
    run = drifted()
    solved = succeeded(run.state, 0.1)
    figures = {"running_fits": False, "running_peaks_bytes": [990, 1, 1]}
    solved = replace(solved, replacement={**(solved.replacement or {}), **figures})
    (event,) = step(run.state, run.look(55, solved)).events
    assert event.detail == "version 2 (stage_time_drift), predicted +10.0%"


def test_a_plan_is_replaced_for_its_memory_whatever_asked_for_the_solve() -> None:
    run = drifted()
    solved = succeeded(run.state, -0.05)
    figures = {"running_fits": False, "running_peaks_bytes": [1_001, 1, 1]}
    too_large = replace(solved, replacement={**(solved.replacement or {}), **figures})
    assert step(run.state, run.look(55, too_large)).publish is not None
    figures["running_peaks_bytes"] = [1_000, 1, 1]
    fits = replace(solved, replacement={**(solved.replacement or {}), **figures})
    assert step(run.state, run.look(55, fits)).publish is None


def test_where_nothing_fits_the_running_plan_does_not_either() -> None:
    run = limits_cut(4_050)
    assert run.state.solving is not None
    number = run.state.solving.number
    events = step(run.state, run.look(35, Solved(number, "infeasible", detail="why"))).events
    assert [(e.kind, "why" in e.detail) for e in events] == [
        ("running_does_not_fit", False),
        ("refused", True),
    ]
    assert "50 bytes" in events[0].detail or "limit" in events[0].detail


def test_memory_of_a_stage_is_believed_as_a_whole_or_not_at_all() -> None:
    deltas: dict[str, float] = {"forward_memory_delta_bytes": 0, "backward_memory_delta_bytes": 400}
    run = Run(named(samples(range(200)), **deltas))
    outcome = step(run.state, run.look(50))
    assert [event.kind for event in outcome.events] == ["memory_disbelieved"]
    assert "forward_memory_delta_bytes is 0" in outcome.events[0].detail
    assert step(outcome.state, run.look(50)).events == ()
    assert step(outcome.state, run.look(150)).events == ()
