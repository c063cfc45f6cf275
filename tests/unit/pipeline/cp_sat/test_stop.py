"""Stopping: soon, with what was found so far."""

from __future__ import annotations

import threading
import time

import pytest

from planner.pipeline.cp_sat.improve import improve_with_cp_sat
from planner.pipeline.feasibility.decide import sequential_schedule
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.pipeline.verify import verify
from tests.problems import uniform_problem
from tests.unit.pipeline.cp_sat.solving import Remembering, never, settings


@pytest.fixture
def long_problem() -> PipelineProblem:
    """Much more than any test has time to solve."""
    return uniform_problem(
        devices=6, micro_batches=12, limit=14, offload_bytes=2, offload_ns=7, reload_ns=7
    )


def test_a_stop_request_ends_the_search_with_what_there_is(long_problem: PipelineProblem) -> None:
    start = sequential_schedule(long_problem)
    asked: list[float] = []

    def should_stop() -> bool:
        asked.append(time.monotonic())
        return len(asked) > 30

    outcome = improve_with_cp_sat(long_problem, start, settings(600.0), Remembering(), should_stop)
    assert outcome.status == "stopped"
    assert len(asked) < 200
    assert outcome.schedule is None or not verify(long_problem, outcome.schedule)


def test_the_time_limit_is_kept_and_improvements_come_as_they_are_found(
    long_problem: PipelineProblem,
) -> None:
    start = sequential_schedule(long_problem)
    found: list[int] = []

    def adopt(schedule: Schedule) -> None:
        assert threading.current_thread() is threading.main_thread()
        found.append(schedule.makespan_ns)

    outcome = improve_with_cp_sat(long_problem, start, settings(6.0), Remembering(), never, adopt)
    assert outcome.status == "time_limit"
    assert outcome.schedule is not None
    assert not verify(long_problem, outcome.schedule)
    assert found == sorted(set(found), reverse=True)
    assert found[-1] == outcome.schedule.makespan_ns < start.makespan_ns


def test_what_a_callback_raises_ends_the_child(long_problem: PipelineProblem) -> None:
    def fail(schedule: Schedule) -> None:
        raise LookupError("the caller's own fault")

    with pytest.raises(LookupError):
        improve_with_cp_sat(long_problem, None, settings(600.0), Remembering(), never, fail)
