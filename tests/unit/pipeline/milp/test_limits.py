"""Time limits, stop requests and crashes of the engines."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from planner.errors import SolverCrash
from planner.milp import cbc, highs
from planner.pipeline.documents import read_problem
from planner.pipeline.feasibility.decide import sequential_schedule
from planner.pipeline.milp.improve import improve
from planner.pipeline.verify import verify
from tests.unit.milp.children import fake_solver
from tests.unit.pipeline.milp.problems import GIB, MS, balanced
from tests.unit.pipeline.milp.solving import Engine, Remembering, never, settings, stop_after

ENGINES: tuple[Engine, Engine] = ("cbc", "highs")
ROOM_S = 2.0
HARD = balanced(4, 10, memory=0.5, offload_bytes=GIB // 5, offload_ns=9 * MS, reload_ns=9 * MS)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("limit_s", [0.5, 3.0])
def test_time_limit_holds_with_the_building_of_the_model(engine: Engine, limit_s: float) -> None:
    start = sequential_schedule(HARD)
    begun = time.monotonic()
    outcome = improve(HARD, start, settings(engine, limit_s), Remembering(), never)
    assert time.monotonic() - begun < limit_s + ROOM_S
    assert outcome.status == "time_limit"
    if outcome.schedule is not None:
        assert not verify(HARD, outcome.schedule)


@pytest.mark.parametrize("engine", ENGINES)
def test_stop_ends_the_engine_and_keeps_what_it_has(engine: Engine) -> None:
    start = sequential_schedule(HARD)
    begun = time.monotonic()
    outcome = improve(
        HARD,
        start,
        settings(engine, 60),
        Remembering(),
        stop_after(6, time.monotonic),
    )
    assert time.monotonic() - begun < 6 + ROOM_S
    assert outcome.status == "stopped"
    if outcome.schedule is not None:
        assert outcome.schedule.makespan_ns < start.makespan_ns
        assert not verify(HARD, outcome.schedule)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo last words\nexit 1\n", "exit status 1"),
        ("echo last words\nkill -9 $$\n", "exit status -9"),
        ("echo last words\nexit 0\n", "without a result"),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_crash_is_told_with_the_end_of_the_log(
    engine: Engine, body: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fake_solver(tmp_path, body)
    monkeypatch.setattr(cbc, "cbc_path", lambda: path)
    monkeypatch.setattr(highs, "highs_path", lambda: path)
    problem = balanced(2, 2)
    with pytest.raises(SolverCrash, match=message) as crash:
        improve(problem, sequential_schedule(problem), settings(engine), Remembering(), never)
    assert crash.value.log_tail == ["last words"]


def test_a_missing_executable_is_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cbc, "cbc_path", lambda: tmp_path / "nowhere")
    problem = balanced(2, 2)
    with pytest.raises(SolverCrash, match="cannot be started"):
        improve(problem, sequential_schedule(problem), settings(), Remembering(), never)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_model_without_anything_to_decide_is_solved_too(engine: Engine) -> None:
    """Memory fixes every order here, and the times have no common divisor: an LP is left."""
    problem = read_problem(
        {
            "micro_batches": 2,
            "devices": [{"activation_memory_bytes": 8}, {"activation_memory_bytes": 13}],
            "stages": [
                {
                    "device": 0,
                    "forward_ns": 1051657706002,
                    "backward_input_ns": [14894030821, 672740025218],
                    "activation_bytes": 5,
                    "backward_weight_ns": 748604334664,
                    "weight_grad_bytes": [3, 7],
                },
                {
                    "device": 1,
                    "forward_ns": [865071713018, 843449134084],
                    "backward_input_ns": 990626323734,
                    "activation_bytes": 8,
                    "backward_weight_ns": [688065268537, 376416247710],
                    "weight_grad_bytes": 12,
                },
            ],
        }
    )
    start = sequential_schedule(problem)
    outcome = improve(problem, start, settings(engine, 10), Remembering(), never)
    assert outcome.lower_bound_ns is not None
    best = outcome.schedule or start
    assert outcome.lower_bound_ns <= best.makespan_ns == 7229327297277
