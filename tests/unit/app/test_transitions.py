"""The state machine of a solve."""

from __future__ import annotations

import itertools
import json

import pytest

from app.database import clock_ms
from app.models import OVER, Solve, SolveState
from app.services.transitions import (
    ALLOWED,
    Answered,
    IllegalTransition,
    OutOfMemory,
    backoff_s,
    end_attempt,
    move,
)

STEPS = list(itertools.product(SolveState, SolveState))
LEGAL = {(source, target) for source, targets in ALLOWED.items() for target in targets}


@pytest.mark.parametrize(("source", "target"), sorted(set(STEPS) - LEGAL))
def test_illegal_steps_are_refused(source: SolveState, target: SolveState) -> None:
    solve = Solve(state=source, lease_until=5)
    with pytest.raises(IllegalTransition, match=f"{source} -> {target}"):
        move(solve, target)
    assert (solve.state, solve.lease_until) == (source, 5)


@pytest.mark.parametrize(("source", "target"), sorted(LEGAL))
def test_legal_steps_set_what_goes_with_the_state(source: SolveState, target: SolveState) -> None:
    solve = Solve(state=source, lease_until=5, dispatched_at=4)
    move(solve, target)
    assert solve.state == target
    assert solve.lease_until is None
    assert (solve.finished_at is not None) == target.is_over
    if target is SolveState.QUEUED:
        assert solve.dispatched_at is None
        assert isinstance(solve.not_before, clock_ms)


def test_nothing_follows_an_end() -> None:
    assert not set(OVER) & set(ALLOWED)
    assert {source for source, _ in LEGAL} == {SolveState.QUEUED, SolveState.RUNNING}


def test_backoff_grows_to_a_minute() -> None:
    assert [backoff_s(losses) for losses in (1, 2, 3, 4)] == [0, 2, 4, 8]
    assert backoff_s(20) == 60


def test_a_stored_objective_is_rounded_up_and_a_bound_down() -> None:
    result = {"state": "succeeded", "objective": 8.25, "lower_bound": 6.75, "document": {}}
    solve = Solve(
        state=SolveState.RUNNING, stop_requested=False, created_at=1, started_at=2, attempt=1
    )
    end_attempt(solve, Answered(result), max_crashes=3, max_losses=5, log_tail=[])
    assert (solve.best_objective, solve.lower_bound) == (9, 6)


def test_a_proven_answer_that_came_after_the_memory_limit_is_an_answer_as_any_other() -> None:
    document = {"provenance": {"stopped_by": "proven optimal"}}
    result = {"state": "succeeded", "proven_optimal": True, "document": document}
    solve = Solve(
        state=SolveState.RUNNING, stop_requested=False, created_at=1, started_at=2, attempt=1
    )
    end_attempt(solve, OutOfMemory(1 << 30, result), max_crashes=3, max_losses=5, log_tail=[])
    assert solve.state == SolveState.SUCCEEDED
    assert json.loads(solve.result or "")["provenance"]["stopped_by"] == "proven optimal"
