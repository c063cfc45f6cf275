"""What a look at a run leads to: solves, versions, swaps, measurements and roll-backs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from planner.following.look import Look, Outcome, Solved
from planner.following.state import Reason, changed, new_run
from planner.following.step import step
from planner.following.telemetry import Sample
from planner.following.versions import VersionState
from planner.pipeline.problem import PipelineProblem
from tests.unit.following.runs import (
    ITERATION_NS,
    SETTINGS,
    Run,
    problem,
    samples,
    straggler,
    succeeded,
)

SLOWER_FROM = 40


def slow_iterations(i: int) -> float:
    """A straggler makes iterations longer."""
    return ITERATION_NS * (1.25 if i >= SLOWER_FROM else 1)


def drifted() -> Run:
    """A run with a straggler whose re-solve has been asked for at iteration 50."""
    run = Run(samples(range(200), straggler, iteration_ns=slow_iterations))
    assert run.at(39) == []
    assert run.at(50) == ["solve_asked"]
    return run


def published() -> Run:
    run = drifted()
    assert run.at(55, succeeded(run.state)) == ["published"]
    return run


def running(after: float) -> Run:
    """Version 2 runs from iteration 64 on, and iterations take `after` times as long."""
    run = published()

    def iteration_ns(i: int) -> float:
        return slow_iterations(i) * (after if i >= 64 else 1)

    run.samples = samples(range(200), straggler, iteration_ns=iteration_ns)
    run.acknowledge(2, 58)
    assert run.at(60) == ["scheduled"]
    assert run.state.version(2).apply_at_iteration == 64
    assert run.at(64) == ["running"]
    return run


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


def test_the_first_solve_is_not_dropped_for_its_profile() -> None:
    run = Run(samples(range(60), lambda i, s: 1.5), given_plan=False)
    assert run.at(50) == []


FIRST_MISSED = (
    (Solved(1, "failed", detail="worker lost"), "solve_failed"),
    (Solved(1, "succeeded", unsafe="the time was up"), "refused"),
)


@pytest.mark.parametrize(("solved", "told"), FIRST_MISSED)
def test_a_first_solve_without_a_plan_is_repeated_with_more_time(solved: Solved, told: str) -> None:
    run = Run([], given_plan=False)
    limits = []
    for number in (1, 2):
        outcome = step(run.state, run.look(0, replace(solved, number=number)))
        run.state = outcome.state
        assert [event.kind for event in outcome.events] == [told, "solve_asked"]
        assert outcome.solve is not None
        assert outcome.solve.start_version is None
        limits.append(outcome.solve.time_limit_s / SETTINGS.solve_time_limit_s)
    assert limits == [2, 4]
    assert run.at(0, replace(solved, number=3)) == [told]


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


@pytest.mark.parametrize(
    ("gain", "low", "is_published"),
    [(0.1, 0.05, True), (0.03, 0.019, False), (0.019, 0.019, False), (0.2, -0.01, False)],
)
def test_a_gain_has_to_exceed_the_least_and_the_noise(
    gain: float, low: float, is_published: bool
) -> None:
    run = drifted()
    kinds = run.at(55, succeeded(run.state, gain, low))
    assert kinds == (["published"] if is_published else ["refused"])
    assert (run.state.pending is not None) == is_published


def test_what_was_refused_is_not_tried_again_on_the_same_profile() -> None:
    run = drifted()
    run.at(55, succeeded(run.state, 0.0))
    for newest in range(56, 180):
        assert run.at(newest) == []


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_a_failed_solve_is_asked_for_again_after_the_cool_down(state: str) -> None:
    run = drifted()
    assert run.at(55, Solved(1, state)) == ["solve_failed"]  # type: ignore[arg-type]
    assert run.at(80) == []
    assert run.at(85) == ["solve_asked"]


def asked_at(run: Run, iterations: Iterable[int], **answer: Any) -> list[int]:
    """When solves are asked for that each end like this, five iterations later."""
    asked = []
    for newest in iterations:
        solving = run.state.solving
        ends = solving is not None and newest >= solving.asked_at_iteration + 5
        solved = Solved(solving.number, **answer) if solving is not None and ends else None
        if "solve_asked" in run.at(newest, solved):
            asked.append(newest)
    return asked


def test_solves_that_keep_failing_are_asked_for_ever_more_rarely() -> None:
    run = Run(samples(range(5_000), straggler))
    asked = asked_at(run, range(40, 3_000), state="failed")
    cool_down = SETTINGS.cool_down_iterations
    waits = [second - first - 5 for first, second in pairwise(asked)]
    assert waits[:4] == [cool_down * times for times in (1, 2, 4, 8)]
    assert set(waits[4:]) == {16 * cool_down}


def test_what_cannot_be_planned_is_refused_ever_more_rarely() -> None:
    run = Run(samples(range(700), lambda i, s: 1e9))
    refused = [newest for newest in range(20, 600) if run.at(newest)]
    assert [second - first for first, second in pairwise(refused)] == [30, 60, 120, 240]


def setback_of(run: Run, times: int) -> int:
    """Let so many solves in a row fail; the iteration until which no other is asked for."""
    newest = 40
    while run.state.setback is None or run.state.setback.times < times:
        asked_at(run, [newest], state="failed")
        newest += 1
    return run.state.setback.until


def test_drift_from_what_failed_ends_the_back_off() -> None:
    run = Run(samples(range(2_000), straggler))
    until = setback_of(run, 4)
    drifts_from = until - 150
    run.samples = samples(
        range(2_000), lambda i, s: 2.0 if s == 0 and i >= drifts_from else straggler(i, s)
    )
    (first, *_) = asked_at(run, range(drifts_from, until), state="failed")
    assert first < drifts_from + 20
    assert run.state.setback is not None
    assert run.state.setback.times < 4


def test_other_limits_end_the_back_off() -> None:
    run = Run(samples(range(2_000), straggler))
    until = setback_of(run, 4)
    run.state = changed(run.state, problem(900), SETTINGS, until - 150)
    assert run.at(until - 150) == ["solve_asked"]


def test_a_publication_ends_the_back_off() -> None:
    run = Run(samples(range(2_000), straggler))
    until = setback_of(run, 3)
    assert run.at(until) == ["solve_asked"]
    assert run.at(until + 5, succeeded(run.state)) == ["published"]
    assert run.state.setback is None


def test_failures_and_refusals_are_counted_apart() -> None:
    run = Run(samples(range(2_000), straggler))
    until = setback_of(run, 3)
    assert run.at(until) == ["solve_asked"]
    assert run.at(until + 5, succeeded(run.state, 0.0)) == ["refused"]
    assert run.state.setback is not None
    assert (run.state.setback.kind, run.state.setback.times) == ("refused", 1)


def test_a_failed_solve_for_other_limits_is_asked_for_again() -> None:
    run = Run(samples(range(200)))
    run.at(20)
    run.state = changed(run.state, problem(900), SETTINGS, 20)
    assert run.at(20) == ["solve_asked"]
    assert run.at(25, Solved(1, "failed")) == ["solve_failed"]
    assert run.at(54) == []
    outcome = step(run.state, run.look(55))
    assert outcome.solve is not None
    assert outcome.solve.reason == Reason.MEMORY_LIMIT_CHANGE


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


def test_no_plan_within_the_headroom_is_refused() -> None:
    run = drifted()
    assert run.at(55, Solved(1, "infeasible")) == ["refused"]


def test_a_plan_that_is_not_proven_is_refused() -> None:
    run = drifted()
    solved = replace(succeeded(run.state), unsafe="no waits")
    assert run.at(55, solved) == ["refused"]


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
    assert run.state.version(2).measured_gain == pytest.approx(0.1, abs=0.02)


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


def rolled_back() -> Run:
    """Version 3 is version 1 again and runs, on the profile that version 2 was made for."""
    run = running(after=1.06)
    run.at(75)
    run.acknowledge(3, 76)
    assert run.at(76) == ["scheduled"]
    assert run.at(80) == ["running"]
    assert run.state.version(3).state is VersionState.CONFIRMED
    return run


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
    run.at(25, succeeded(run.state, 0.0))
    for newest in range(26, 120):
        assert run.at(newest) == []


def test_a_link_within_its_limit_asks_for_nothing() -> None:
    run = Run(samples(range(120), link_busy_share=0.8))
    for newest in range(0, 120, 5):
        assert run.at(newest) == []


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


def smaller() -> PipelineProblem:
    base = problem()
    return replace(
        base, devices=base.devices[:2], stages=base.stages[:2], transfers=base.transfers[:1]
    )


def reshaped(run: Run, newest: int) -> Outcome:
    run.state = changed(run.state, smaller(), SETTINGS, newest)
    outcome = step(run.state, run.look(newest))
    run.state = outcome.state
    return outcome


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


def test_other_limits_of_the_same_shape_are_planned_for_at_once() -> None:
    run = Run(samples(range(60)))
    run.at(20)
    run.state = changed(run.state, problem(900), SETTINGS, 20)
    outcome = step(run.state, run.look(20))
    assert outcome.solve is not None
    assert (outcome.solve.reason, outcome.solve.start_version) == ("memory_limit_change", 1)


def test_other_settings_alone_ask_for_nothing() -> None:
    run = Run(samples(range(60)))
    run.state = changed(run.state, problem(), SETTINGS.model_copy(update={"min_gain": 0.5}), 20)
    assert run.at(21) == []
    assert run.state.settings.min_gain == 0.5


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


def test_times_that_cannot_be_planned_are_refused_once() -> None:
    run = Run(samples(range(60), lambda i, s: 1e9))
    assert run.at(20) == ["refused"]
    assert run.at(20) == []


def test_a_run_with_a_given_plan_runs_it() -> None:
    state = new_run(problem(), SETTINGS, given_plan=True)
    assert (state.running, state.solving, state.version(1).reason) == (1, None, "given")


def named(own: list[Sample], **values: float) -> list[Sample]:
    """These samples with some more values."""
    return [replace(sample, values={**sample.values, **values}) for sample in own]


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


def test_a_first_solve_that_proves_that_nothing_fits_is_not_repeated() -> None:
    run = Run([], given_plan=False)
    outcome = step(run.state, run.look(0, Solved(1, "infeasible", unsafe="x", detail="too big")))
    assert [event.kind for event in outcome.events] == ["refused"]
    assert "too big" in outcome.events[0].detail


def test_a_change_of_a_run_that_could_not_be_planned_plans_it_again() -> None:
    run = Run([], given_plan=False)
    run.at(0, Solved(1, "infeasible"))
    longer = SETTINGS.model_copy(update={"solve_time_limit_s": 60.0})
    run.state = changed(run.state, problem(), longer, None)
    outcome = step(run.state, Look(None))
    assert outcome.solve is not None
    assert (outcome.solve.reason, outcome.solve.time_limit_s) == ("first", 60.0)


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
    assert "does not fit" in events["published"]
    told = "running plan no longer fits: device 1 needs 950 of 900 bytes"
    assert events.get("running_does_not_fit") == (told if peak > 900 else None)


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


def test_a_refusal_says_that_a_plan_would_be_slower_or_that_time_was_short() -> None:
    run = drifted()
    (slower,) = step(run.state, run.look(55, succeeded(run.state, -0.128))).events
    assert "12.8% slower" in slower.detail
    unsafe = replace(succeeded(run.state), unsafe="the time was up")
    (short,) = step(run.state, run.look(55, unsafe)).events
    assert "raise follow.solve_time_limit_s" in short.detail


def test_memory_of_a_stage_is_believed_as_a_whole_or_not_at_all() -> None:
    deltas: dict[str, float] = {"forward_memory_delta_bytes": 0, "backward_memory_delta_bytes": 400}
    run = Run(named(samples(range(200)), **deltas))
    outcome = step(run.state, run.look(50))
    assert [event.kind for event in outcome.events] == ["memory_disbelieved"]
    assert "forward_memory_delta_bytes is 0" in outcome.events[0].detail
    assert step(outcome.state, run.look(50)).events == ()
    assert step(outcome.state, run.look(150)).events == ()


def test_ranks_that_never_acknowledge_are_named_once() -> None:
    run = published()
    run.acknowledge(2, 57, ranks=[1])
    late = 55 + SETTINGS.resolve_every
    assert run.at(late - 1) == []
    events = step(run.state, run.look(late)).events
    assert [(e.kind, e.detail.endswith("0, 2")) for e in events] == [("ranks_missing", True)]
    assert run.at(late) == ["ranks_missing"]
    assert run.at(late) == []
