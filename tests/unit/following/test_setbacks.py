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
    assert "12.8% slower" in slower.detail
    unsafe = replace(succeeded(run.state), unsafe="the time was up")
    (short,) = step(run.state, run.look(55, unsafe)).events
    assert "raise follow.solve_time_limit_s" in short.detail
