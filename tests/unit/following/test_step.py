"""When solves are asked for, and what for."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from planner.following.look import Look, Solved
from planner.following.solve_records import Reason
from planner.following.state import changed, new_run
from planner.following.step import step
from tests.unit.following.begun import (
    drifted,
)
from tests.unit.following.runs import (
    SETTINGS,
    Run,
    problem,
    samples,
    straggler,
    succeeded,
)


def test_the_first_solve_is_not_dropped_for_its_profile() -> None:
    run = Run(samples(range(60), lambda i, s: 1.5), given_plan=False)
    assert run.at(50) == []


def test_a_run_that_never_had_a_plan_gets_one_once_there_is_telemetry() -> None:
    run = Run(samples(range(90)), given_plan=False)
    for number in (1, 2, 3):
        run.at(10, Solved(number, "failed", detail="worker lost"))
    assert run.at(30) == []
    assert run.at(40) == ["solve_asked"]
    assert run.state.solving is not None
    assert run.state.solving.start_version is None


def test_jitter_alone_asks_for_nothing() -> None:
    run = Run(samples(range(200), jitter=0.03))
    for newest in range(0, 200, 3):
        assert run.at(newest) == []


def test_drift_asks_for_a_solve_of_the_fresh_profile() -> None:
    run = Run(samples(range(60), straggler))
    outcome = step(run.state, run.look(50))
    wanted = outcome.solve
    assert wanted is not None
    assert (wanted.number, wanted.reason, wanted.start_version) == (1, "stage_time_drift", 1)
    forward = [stage.forward_ns[0] for stage in wanted.problem.stages]
    assert forward == pytest.approx([1e6, 1.3e6, 1e6], rel=0.01)
    limits = [device.activation_memory_bytes for device in wanted.problem.devices]
    assert limits == [980] * 3
    assert all(0 < noise < 0.01 for noise in wanted.noise)
    assert wanted.time_limit_s == SETTINGS.solve_time_limit_s


def test_warm_up_iterations_are_not_measured() -> None:
    run = Run(samples(range(60), lambda i, s: 3.0 if i < 5 else 1.0))
    for newest in range(60):
        assert run.at(newest) == []


def test_one_solve_is_in_flight() -> None:
    run = drifted()
    assert run.at(53) == []
    assert run.state.solves == 1


def test_the_newest_profile_wins() -> None:
    run = drifted()
    run.samples = samples(range(80), lambda i, s: 1.8 if s == 2 and i >= 51 else straggler(i, s))
    outcome = step(run.state, run.look(60))
    assert outcome.drop_solve
    assert outcome.solve is not None
    assert outcome.solve.number == 2
    assert outcome.solve.problem.stages[2].forward_ns[0] == pytest.approx(1.8e6, rel=0.02)
    # The answer of the dropped solve, which comes late, counts for nothing.
    state = outcome.state
    late = step(state, replace(run.look(60), solved=Solved(1, "succeeded", {"gain": 1})))
    assert late.publish is None
    assert late.state == state


def test_an_answer_of_an_outdated_profile_is_solved_again() -> None:
    run = drifted()
    run.samples = samples(range(80), lambda i, s: 1.8 if s == 2 and i >= 51 else straggler(i, s))
    outcome = step(run.state, run.look(60, succeeded(run.state)))
    assert outcome.publish is None
    assert outcome.solve is not None
    assert outcome.solve.number == 2


def test_a_run_that_never_stops_changing_gets_a_plan() -> None:
    run = Run(samples(range(400), lambda i, s: 1.6 ** (i // 12) if s == 1 else 1.0))
    outcomes = []
    for newest in range(20, 120):
        solved = succeeded(run.state) if newest == 110 and run.state.solving else None
        outcome = step(run.state, run.look(newest, solved))
        run.state = outcome.state
        outcomes.append(outcome)
    assert sum(o.solve is not None for o in outcomes) == 3
    assert outcomes[110 - 20].publish is not None


def test_small_changes_are_looked_at_now_and_then() -> None:
    own = samples(range(200), lambda i, s: 1.011 if s == 1 else 1.0, jitter=0.02)
    run = Run(own)
    asked = []
    for newest in range(1, 190):
        solving = run.state.solving
        if "solve_asked" in run.at(newest, solving and succeeded(run.state, 0.0)):
            asked.append(newest)
    assert asked
    for first, second in pairwise(asked):
        assert second - first >= SETTINGS.resolve_every


def test_a_busy_link_asks_once() -> None:
    run = Run(samples(range(120), link_busy_share=0.9))
    assert run.at(20) == ["solve_asked"]
    assert run.state.solving is not None
    assert run.state.solving.reason == Reason.LINK_BUSY
    run.at(25, succeeded(run.state, 0.0, at_most=0.01))
    for newest in range(26, 120):
        assert run.at(newest) == []


def test_a_busy_link_asks_again_where_its_solve_came_to_nothing() -> None:
    run = Run(samples(range(200), link_busy_share=0.9))
    run.at(20)
    assert run.at(25, Solved(1, "failed")) == ["solve_failed"]
    assert [newest for newest in range(26, 60) if run.at(newest)] == [25 + 30]
    assert run.state.solving is not None
    assert run.state.solving.reason == Reason.LINK_BUSY
    # It is still the same profile, so that the next wait is twice as long.
    run.at(60, Solved(2, "failed"))
    assert [newest for newest in range(61, 125) if run.at(newest)] == [60 + 60]


def test_another_busy_link_asks_whatever_was_proven_of_the_first() -> None:
    own = samples(range(120), link_busy_share=0.5)
    for sample in own:
        if sample.stage == 0 or (sample.stage == 2 and sample.iteration >= 60):
            sample.values["link_busy_share"] = 0.95  # type: ignore[index]
    run = Run(own)
    run.at(20)
    run.at(25, succeeded(run.state, 0.0, at_most=0.01))
    asked = [newest for newest in range(26, 115) if run.at(newest) == ["solve_asked"]]
    assert len(asked) == 1
    assert asked[0] > 60


def test_a_link_within_its_limit_asks_for_nothing() -> None:
    run = Run(samples(range(120), link_busy_share=0.8))
    for newest in range(0, 120, 5):
        assert run.at(newest) == []


def test_other_settings_alone_ask_for_nothing() -> None:
    run = Run(samples(range(60)))
    run.state = changed(run.state, problem(), SETTINGS.model_copy(update={"min_gain": 0.5}), 20)
    assert run.at(21) == []
    assert run.state.settings.min_gain == 0.5


def test_times_that_cannot_be_planned_are_refused_once() -> None:
    run = Run(samples(range(60), lambda i, s: 1e9))
    assert run.at(20) == ["refused"]
    assert run.at(20) == []


def test_a_run_with_a_given_plan_runs_it() -> None:
    state = new_run(problem(), SETTINGS, given_plan=True)
    assert (state.running, state.solving, state.version(1).reason) == (1, None, "given")


def test_a_change_of_a_run_that_could_not_be_planned_plans_it_again() -> None:
    run = Run([], given_plan=False)
    run.at(0, Solved(1, "infeasible"))
    longer = SETTINGS.model_copy(update={"solve_time_limit_s": 60.0})
    run.state = changed(run.state, problem(), longer, None)
    outcome = step(run.state, Look(None))
    assert outcome.solve is not None
    assert (outcome.solve.reason, outcome.solve.time_limit_s) == ("first", 60.0)
