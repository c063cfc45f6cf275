"""Solves that come to nothing: what is tried again, when, and what is said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from planner.following.look import Solved
from planner.following.solve_records import Reason
from planner.following.state import changed
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


@pytest.mark.parametrize("gain", [0.0, 0.019, -0.1])
def test_where_no_plan_saves_enough_none_is_looked_for_on_the_same_profile(gain: float) -> None:
    run = Run(samples(range(1_000), straggler))
    run.at(50)
    assert run.at(55, succeeded(run.state, gain, at_most=0.0199)) == ["refused"]
    for newest in range(56, 1_000, 7):
        assert run.at(newest) == []


def test_drift_ends_even_what_was_proven() -> None:
    def ever_slower(i: int, s: int) -> float:
        return straggler(i, s) * (1.5 if s == 1 and i >= 300 else 1)

    run = Run(samples(range(400), ever_slower))
    run.at(50)
    run.at(55, succeeded(run.state, 0.01, at_most=0.015))
    asked = [newest for newest in range(56, 330) if run.at(newest) == ["solve_asked"]]
    assert len(asked) == 1
    assert 300 < asked[0] < 315


def test_what_returns_to_what_the_running_plan_was_made_for_asks_for_nothing() -> None:
    run = Run(samples(range(400), lambda i, s: straggler(i, s) if i < 100 else 1.0))
    run.at(50)
    run.at(55, succeeded(run.state, 0.01, at_most=0.015))
    assert [newest for newest in range(100, 400) if run.at(newest)] == []


NOT_PROVEN: dict[str, dict[str, Any]] = {
    "failed": {"state": "failed"},
    "not safe": {"state": "succeeded", "unsafe": "the time was up"},
    "not timed": {"state": "succeeded"},
    "a better one may exist": {
        "state": "succeeded",
        "replacement": {
            "running_ns": 1_000_000,
            "gain": 0.015,
            "gain_low": 0.01,
            "running_fits": True,
        },
        "lower_bound_ns": 900_000,
    },
    "too noisy": {
        "state": "succeeded",
        "replacement": {
            "running_ns": 1_000_000,
            "gain": 0.05,
            "gain_low": 0.01,
            "running_fits": True,
        },
    },
}


@pytest.mark.parametrize("answer", NOT_PROVEN.values(), ids=NOT_PROVEN)
def test_what_is_not_proven_is_asked_for_again_ever_more_rarely(answer: dict[str, Any]) -> None:
    run = Run(samples(range(600), straggler))
    asked = asked_at(run, range(40, 560), **answer)
    waits = [second - first - 5 for first, second in pairwise(asked)]
    assert waits == [30, 60, 120, 240]
    assert run.state.anchor == {}


def test_without_a_cool_down_the_same_profile_is_not_solved_all_the_time() -> None:
    settings = SETTINGS.model_copy(update={"cool_down": 0})
    run = Run(samples(range(1_700), straggler), settings)
    asked = asked_at(run, range(40, 1_700), **NOT_PROVEN["a better one may exist"])
    waits = [second - first - 5 for first, second in pairwise(asked)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 480, 480]


OTHER_SETTINGS = [
    {"min_gain": 0.005},
    {"solve_time_limit_s": 60.0},
    {"memory_headroom": 0.0},
    {"resolve_every": 20},
    {"cool_down": 7},
]


@pytest.mark.parametrize("other", OTHER_SETTINGS, ids=str)
@pytest.mark.parametrize("at_most", [None, 0.018], ids=["not proven", "proven"])
def test_other_settings_ask_at_once_for_what_was_refused(
    other: dict[str, float], at_most: float | None
) -> None:
    run = drifted()
    assert run.at(55, succeeded(run.state, 0.015, at_most=at_most)) == ["refused"]
    run.at(56)
    run.state = changed(run.state, problem(), SETTINGS.model_copy(update=other), 56)
    assert run.at(57) == ["solve_asked"]
    assert run.state.solving is not None
    assert run.state.solving.reason == Reason.STAGE_TIME_DRIFT


def test_settings_that_no_refusal_depends_on_ask_for_nothing() -> None:
    run = drifted()
    run.at(55, succeeded(run.state, 0.015))
    other = SETTINGS.model_copy(update={"swap_lead": 9, "measure_over": 12, "ranks": 3})
    run.state = changed(run.state, problem(), other, 56)
    assert run.at(57) == []


def test_another_least_gain_publishes_what_was_refused() -> None:
    run = drifted()
    run.state = changed(run.state, problem(), SETTINGS.model_copy(update={"min_gain": 0.3}), 51)
    (event,) = step(run.state, run.look(55, succeeded(run.state, 0.077, 0.077))).events
    assert event.detail == "it would save 7.7%, 7.7% for sure, and a swap has to save 30.0%"
    assert run.at(55, succeeded(run.state, 0.077, 0.077, at_most=0.1)) == ["refused"]
    run.state = changed(run.state, problem(), SETTINGS.model_copy(update={"min_gain": 0.01}), 60)
    assert run.at(60) == ["solve_asked"]
    assert run.at(65, succeeded(run.state, 0.077, 0.077)) == ["published"]
    assert run.state.solving is None
    assert run.state.anchor != {}


def test_other_headroom_asks_again_where_nothing_fitted_the_changed_limits() -> None:
    run = Run(samples(range(400)))
    run.at(20)
    run.state = changed(run.state, problem(900), SETTINGS, 20)
    run.at(20)
    assert run.at(25, Solved(1, "infeasible", detail="too small")) == ["refused"]
    assert [newest for newest in range(26, 300) if run.at(newest)] == []
    less = SETTINGS.model_copy(update={"memory_headroom": 0.0})
    run.state = changed(run.state, problem(900), less, 300)
    outcome = step(run.state, run.look(301))
    assert outcome.solve is not None
    assert outcome.solve.reason == Reason.MEMORY_LIMIT_CHANGE
    assert outcome.solve.problem.devices[0].activation_memory_bytes == 900


def test_a_solve_for_other_limits_that_was_not_proven_is_asked_for_again() -> None:
    run = Run(samples(range(200)))
    run.at(20)
    run.state = changed(run.state, problem(900), SETTINGS, 20)
    run.at(20)
    unsafe = replace(succeeded(run.state), unsafe="the time was up")
    assert run.at(25, unsafe) == ["refused"]
    assert [newest for newest in range(26, 60) if run.at(newest)] == [55]
    assert run.state.solving is not None
    assert run.state.solving.reason == Reason.MEMORY_LIMIT_CHANGE


def test_a_solve_in_flight_for_another_headroom_is_dropped_and_asked_for_again() -> None:
    run = drifted()
    more = SETTINGS.model_copy(update={"memory_headroom": 0.1})
    run.state = changed(run.state, problem(), more, 52)
    outcome = step(run.state, run.look(52, succeeded(run.state)))
    assert outcome.drop_solve
    assert outcome.publish is None
    assert outcome.solve is not None
    assert outcome.solve.problem.devices[0].activation_memory_bytes == 900


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


def test_what_cannot_be_planned_is_refused_as_rarely_with_a_busy_link() -> None:
    run = Run(samples(range(300), lambda i, s: 1e9, link_busy_share=0.95))
    refused = [newest for newest in range(20, 200) if run.at(newest)]
    assert [second - first for first, second in pairwise(refused)] == [30, 60]


def setback_of(run: Run, times: int) -> int:
    """Let so many solves in a row fail; the iteration until which no other is asked for."""
    newest = 40
    while run.state.setback is None or run.state.setback.times < times:
        asked_at(run, [newest], state="failed")
        newest += 1
    until = run.state.setback.until
    assert until is not None
    return until


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


def test_no_plan_within_the_headroom_is_refused() -> None:
    run = drifted()
    assert run.at(55, Solved(1, "infeasible")) == ["refused"]


def test_a_plan_that_is_not_proven_is_refused() -> None:
    run = drifted()
    solved = replace(succeeded(run.state), unsafe="no waits")
    assert run.at(55, solved) == ["refused"]


def test_a_first_solve_that_proves_that_nothing_fits_is_not_repeated() -> None:
    run = Run([], given_plan=False)
    outcome = step(run.state, run.look(0, Solved(1, "infeasible", unsafe="x", detail="too big")))
    assert [event.kind for event in outcome.events] == ["refused"]
    assert "too big" in outcome.events[0].detail


def test_a_refusal_says_that_a_plan_would_be_slower_or_that_time_was_short() -> None:
    run = drifted()
    (slower,) = step(run.state, run.look(55, succeeded(run.state, -0.128))).events
    assert slower.detail == "it would be 12.8% slower, and a swap has to save 2.0%"
    unsafe = replace(succeeded(run.state), unsafe="the time was up")
    (short,) = step(run.state, run.look(55, unsafe)).events
    assert "raise follow.solve_time_limit_s" in short.detail
    number = unsafe.number
    (untimed,) = step(run.state, run.look(55, Solved(number, "succeeded"))).events
    assert "raise follow.solve_time_limit_s, now 30" in untimed.detail


@pytest.mark.parametrize(
    ("gain", "low", "words"),
    [
        (0.0, 0.0, "be as fast as the plan that runs"),
        (-0.0004, -0.001, "be as fast as the plan that runs"),
        (0.0004, -0.0001, "be as fast as the plan that runs"),
        (-0.0006, -0.001, "be 0.1% slower"),
        (0.01, -0.0001, "save 1.0%, nothing for sure"),
        (0.03, 0.019, "save 3.0%, 1.9% for sure"),
    ],
)
def test_a_refusal_has_no_share_of_minus_nothing(gain: float, low: float, words: str) -> None:
    run = drifted()
    (event,) = step(run.state, run.look(55, succeeded(run.state, gain, low))).events
    assert event.detail == f"it would {words}, and a swap has to save 2.0%"
