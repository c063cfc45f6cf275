"""From a published version to one that runs, is measured, and stays or is rolled back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.following.look import Solved
from planner.following.step import step
from planner.following.versions import VersionState
from tests.unit.following.begun import (
    published,
    rolled_back,
    running,
    slow_iterations,
)
from tests.unit.following.runs import (
    SETTINGS,
    Run,
    samples,
    straggler,
    succeeded,
)


def test_the_first_plan_is_published_whatever_it_gains() -> None:
    run = Run([], given_plan=False)
    assert run.state.solving is not None
    outcome = step(run.state, run.look(0, Solved(1, "succeeded")))
    assert outcome.publish is not None
    assert (outcome.publish.number, outcome.publish.solve, outcome.publish.reason) == (
        1,
        1,
        "first",
    )
    assert outcome.state.version(1).state is VersionState.PUBLISHED


def test_a_version_waits_for_every_rank() -> None:
    run = published()
    run.acknowledge(2, 57, ranks=[0, 2])
    for newest in range(58, 80):
        assert run.at(newest) == []
    run.acknowledge(2, 90, ranks=[1])
    assert run.at(85) == ["scheduled"]
    assert run.state.version(2).apply_at_iteration == 94
    assert run.state.running == 1


def test_the_number_of_ranks_can_be_given() -> None:
    settings = SETTINGS.model_copy(update={"ranks": 1})
    run = Run(samples(range(100), straggler), settings)
    run.at(50)
    run.at(55, succeeded(run.state))
    run.acknowledge(2, 57, ranks=[0])
    assert run.at(58) == ["scheduled"]


def test_where_nobody_acknowledges_it_applies_after_the_time_to_do_so() -> None:
    run = published()
    assert run.at(58) == []
    assert run.at(59) == ["scheduled"]
    assert run.state.version(2).apply_at_iteration == 63
    assert run.at(63) == ["running"]


def test_where_ranks_acknowledge_it_never_applies_by_itself() -> None:
    run = published()
    run.acknowledge(1, 0, ranks=[0])
    for newest in range(56, 80):
        assert run.at(newest) == []


def test_where_nobody_acknowledges_what_ranks_report_counts() -> None:
    run = published()
    run.samples += samples([56], straggler, plan_version=2)
    run.samples = [s for s in run.samples if s.iteration != 56 or "plan_version" in s.values]
    assert run.at(57) == ["scheduled", "running"]
    assert run.state.version(2).apply_at_iteration == 56


def test_a_gain_is_measured_and_confirmed() -> None:
    run = running(after=0.9)
    assert run.at(74) == []
    assert run.at(75) == ["confirmed"]
    version = run.state.version(2)
    assert version.measured_gain == pytest.approx(0.1, abs=0.01)
    assert version.predicted_gain == 0.1
    assert version.state is VersionState.CONFIRMED


def test_a_plan_that_measures_worse_is_rolled_back() -> None:
    run = running(after=1.06)
    outcome = step(run.state, run.look(75))
    assert [event.kind for event in outcome.events] == ["rolled_back", "published"]
    assert outcome.publish is not None
    assert (outcome.publish.copy_of, outcome.publish.reason) == (1, "rolled_back")
    assert outcome.publish.solve is None
    assert outcome.state.version(2).measured_gain == pytest.approx(-0.06, abs=0.01)
    assert outcome.state.version(3).state is VersionState.PUBLISHED


def test_within_the_noise_nothing_is_rolled_back() -> None:
    run = running(after=1.001)
    assert run.at(75) == ["confirmed"]


def test_a_stage_that_became_slower_is_not_held_against_the_plan() -> None:
    run = running(after=0.9)

    def slower(i: int, s: int) -> float:
        return straggler(i, s) * (1.2 if s == 1 and i >= 64 else 1.0)

    def iteration_ns(i: int) -> float:
        return slow_iterations(i) * (0.9 * 1.2 if i >= 64 else 1)

    run.samples = samples(range(200), slower, iteration_ns=iteration_ns)
    assert run.at(75)[0] == "confirmed"
    version = run.state.version(2)
    assert version.measured_gain == pytest.approx(0.08, abs=0.01)
    assert version.measured_gain + 2 * version.measured_noise > 0.1


def test_without_iteration_times_a_version_is_confirmed_unmeasured() -> None:
    run = running(after=1.0)
    for sample in run.samples:
        if sample.iteration >= 64:
            sample.values.pop("iteration_ns", None)  # type: ignore[attr-defined]
    assert run.at(75) == []
    assert run.at(86)[0] == "confirmed"
    assert run.state.version(2).measured_gain is None


def test_iterations_of_no_time_measure_nothing() -> None:
    run = running(after=1.0)
    run.samples = [replace(s, values={**s.values, "iteration_ns": 0}) for s in run.samples]
    assert run.at(75) == []
    assert run.at(86)[0] == "confirmed"


def test_iterations_that_ran_another_version_do_not_measure_it() -> None:
    run = running(after=1.06)
    run.samples = [
        replace(s, values={**s.values, "plan_version": 1 if s.iteration < 80 else 2})
        for s in run.samples
    ]
    assert run.at(79) == []


def test_after_a_roll_back_the_same_profile_publishes_nothing() -> None:
    run = rolled_back()
    run.state = replace(run.state, limits_changed=True)
    assert run.at(120) == ["solve_asked"]
    assert run.at(125, succeeded(run.state, 0.5)) == ["refused"]
    for newest in range(126, 190):
        assert run.at(newest) == []


def test_after_a_roll_back_a_swap_has_to_bring_more() -> None:
    run = rolled_back()
    assert run.state.rollbacks == 1
    run.samples = samples(range(300), lambda i, s: 2.0 if s == 0 and i >= 90 else straggler(i, s))
    assert run.at(115) == ["solve_asked"]
    assert run.at(120, succeeded(run.state, 0.035, 0.03)) == ["refused"]


def test_a_swap_is_followed_by_a_cool_down() -> None:
    run = running(after=0.9)
    run.samples = samples(range(200), lambda i, s: 2.0 if s == 0 and i >= 70 else straggler(i, s))
    for newest in range(76, 94):
        assert "solve_asked" not in run.at(newest)
    assert run.at(94) == ["solve_asked"]


def test_a_version_that_never_runs_is_superseded_by_a_better_one() -> None:
    run = published()
    run.acknowledge(2, 57, ranks=[0])
    run.samples = samples(range(200), lambda i, s: 2.0 if s == 0 and i >= 60 else straggler(i, s))
    assert run.at(84) == []
    assert run.at(85) == ["ranks_missing", "solve_asked"]
    assert run.at(88, succeeded(run.state)) == ["superseded", "published"]
    assert run.state.version(2).state is VersionState.SUPERSEDED
    assert run.state.pending is not None
    assert run.state.pending.number == 3


def test_ranks_that_never_acknowledge_are_named_once() -> None:
    run = published()
    run.acknowledge(2, 57, ranks=[1])
    late = 55 + SETTINGS.resolve_every
    assert run.at(late - 1) == []
    events = step(run.state, run.look(late)).events
    assert [(e.kind, e.detail.endswith("0, 2")) for e in events] == [("ranks_missing", True)]
    assert run.at(late) == ["ranks_missing"]
    assert run.at(late) == []
