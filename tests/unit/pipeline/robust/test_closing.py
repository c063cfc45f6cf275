"""What closing leaves out when it is late or the client wants no more."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import Interrupted
from planner.pipeline import pace
from planner.pipeline.adaoffload import adaoffload
from planner.pipeline.documents import read_problem
from planner.pipeline.pace import (
    ANSWER_VERIFICATIONS,
    SAFETY_VERIFICATIONS,
    STOPPED_S,
    UNLIMITED,
    Closing,
)
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.robust.robustness import Robustness, safety, with_jitter
from planner.pipeline.schedule import Schedule
from planner.progress import never
from tests.benchmark_problems import benchmark_document as benchmark
from tests.unit.pipeline.stopping import Clock, StopAfter

PROBLEM = read_problem(benchmark("offload-4x8-tight"))
SCHEDULE = adaoffload(PROBLEM)
NOTHING = "no waits, no proof for any durations and no jitter samples"


def robustness(
    problem: PipelineProblem, schedule: Schedule, closing: Closing = UNLIMITED
) -> Robustness:
    """All that closing makes of a schedule, as far as there is time."""
    return with_jitter(problem, safety(problem, schedule, closing), closing)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(now=100.0)
    monkeypatch.setattr(pace, "time", clock)
    return clock


@pytest.mark.usefixtures("clock")
def test_with_time_nothing_is_left_out() -> None:
    found = robustness(PROBLEM, SCHEDULE, Closing(1.0, 102.0 + ANSWER_VERIFICATIONS, never))
    assert found.memory_safe
    assert found.jitter is not None
    assert found.left_out is None
    assert found == robustness(PROBLEM, SCHEDULE)


@pytest.mark.usefixtures("clock")
def test_what_would_not_be_done_soon_after_a_stop_request_is_not_begun() -> None:
    too_slow_s = STOPPED_S / (SAFETY_VERIFICATIONS - 0.2)
    found = robustness(PROBLEM, SCHEDULE, Closing(too_slow_s, 200.0, StopAfter(0)))
    assert found.schedule is SCHEDULE
    assert found.certificate() == {
        "memory_safe_under_jitter": None,
        "memory_safety": f"not known, {NOTHING}: the solve was asked to stop",
    }
    fast_s = STOPPED_S / (SAFETY_VERIFICATIONS + 0.2)
    found = robustness(PROBLEM, SCHEDULE, Closing(fast_s, 200.0, StopAfter(0)))
    assert found.memory_safe
    assert found.jitter is not None


def test_what_turns_out_to_take_too_long_is_given_up(clock: Clock) -> None:
    clock.tick = 1.0
    found = robustness(PROBLEM, SCHEDULE, Closing(1.0, 102.0 + ANSWER_VERIFICATIONS, never))
    assert (found.schedule.waits, found.jitter) == (None, None)
    assert found.left_out == f"{NOTHING}: the time was up"


def test_jitter_is_left_out_first(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    def too_late(*_: Any) -> None:
        clock.now = 105.0
        raise Interrupted("too late")

    monkeypatch.setattr("planner.pipeline.robust.robustness.jitter_of_graph", too_late)
    found = robustness(PROBLEM, SCHEDULE, Closing(1.0, 103.0 + ANSWER_VERIFICATIONS, never))
    assert found.memory_safe
    assert found.schedule.waits
    assert found.left_out == "no jitter samples: the time was up"


def test_after_a_stop_request_little_time_is_left(clock: Clock) -> None:
    closing = Closing(0.0, 200.0, StopAfter(0))
    assert not closing.is_over()
    clock.now += STOPPED_S
    assert closing.is_over()
    found = robustness(PROBLEM, SCHEDULE, closing)
    assert found.left_out == f"{NOTHING}: the solve was asked to stop"
    late = Closing(0.0, 100.5, StopAfter(0))
    assert late.is_over()
