"""What parent and child tell each other: nothing is lost, and a child that fails is noticed."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.errors import OrderError, SolverCrash
from planner.pipeline.cp_sat import improve
from planner.pipeline.cp_sat.improve import improve_with_cp_sat
from planner.pipeline.cp_sat.messages import (
    CpSatOutcome,
    Task,
    outcome_document,
    read_outcome,
    to_line,
)
from planner.pipeline.documents import problem_to_document
from planner.pipeline.feasibility.decide import sequential_schedule
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule
from tests.problems import problems, uniform_problem
from tests.random_schedules import random_schedule
from tests.unit.pipeline.cp_sat.solving import Remembering, never, settings

ROOT = Path(planner.__file__).parents[1]
UNSAFE = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


def schedule_of(problem: PipelineProblem, seed: int) -> Schedule | None:
    try:
        return random_schedule(problem, Random(seed))
    except OrderError:
        return None


@given(problems(), st.integers(0, 2**32))
def test_tasks_and_outcomes_come_through_as_they_are(problem: PipelineProblem, seed: int) -> None:
    schedule = schedule_of(problem, seed)
    task = Task(problem, schedule, settings(1.5, mip_gap=0.25, lower_bound_ns=7))
    line = to_line(task.to_document())
    assert line.count(b"\n") == 1
    read = Task.read(json.loads(line))
    assert (read.start, read.settings) == (task.start, task.settings)
    assert problem_to_document(read.problem) == problem_to_document(problem)
    outcome = CpSatOutcome(schedule, 7, "gap", 3, 4, [{"kind": "whole", "build_s": 0.5}])
    assert read_outcome(problem, json.loads(to_line(outcome_document(outcome)))) == outcome


@pytest.mark.parametrize("child", ["raise SystemExit(3)", "input(); raise SystemExit(3)"])
def test_a_child_that_dies_is_noticed(monkeypatch: pytest.MonkeyPatch, child: str) -> None:
    # More than a pipe holds, so that writing meets the child's end.
    problem = uniform_problem(devices=2, micro_batches=1000)
    monkeypatch.setattr(improve, "CHILD", ("-c", child))
    start = sequential_schedule(problem)
    with pytest.raises(SolverCrash, match="ended without an outcome"):
        improve_with_cp_sat(problem, start, settings(600.0), Remembering(), never)


def test_a_child_that_cannot_be_started_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(improve.subprocess, "Popen", refuse)
    problem = uniform_problem()
    with pytest.raises(SolverCrash, match="cannot be started: no more processes"):
        improve_with_cp_sat(
            problem, sequential_schedule(problem), settings(1.0), Remembering(), never
        )


def test_what_is_known_stays_when_a_deaf_child_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = uniform_problem()
    schedule = sequential_schedule(problem)
    said = to_line({"kind": "bound", "value": ["CP-SAT", 5]})
    said += to_line({"kind": "incumbent", "value": schedule.to_document(None)})
    child = f"import sys, time; print({said.decode()!r}, end='', flush=True); time.sleep(600)"
    monkeypatch.setattr(improve, "CHILD", ("-c", child))
    found: list[Schedule] = []
    outcome = improve_with_cp_sat(
        problem, None, settings(600.0), Remembering(), lambda: bool(found), found.append
    )
    assert outcome == CpSatOutcome(schedule, 5, "stopped", 0, 0, [])
    assert found == [schedule]


def test_nothing_in_the_product_reads_objects_that_can_run_code() -> None:
    for package in ("planner", "app", "workers", "client", "embedded", "migrations"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                names: list[str] = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    names = [node.module or ""]
                assert not UNSAFE.intersection(name.split(".")[0] for name in names), path
