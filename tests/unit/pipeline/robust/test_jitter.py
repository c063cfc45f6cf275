"""Jitter figures are those of executions that follow order and waits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.pipeline.adaoffload import AdaOffloadSettings, adaoffload
from planner.pipeline.documents import read_problem
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.objective import objective_ns, objective_of_ops_ns
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.robust.jitter import FEWEST_SAMPLES, jitter
from planner.pipeline.robust.robustness import safety, with_jitter
from planner.pipeline.robust.waits import with_waits
from planner.pipeline.schedule import Schedule, TimedOp, Wait
from planner.pipeline.verify import verify
from tests import referee
from tests.problems import problems
from tests.random_schedules import random_schedule
from tests.unit.pipeline.robust.executor import execute

PROBLEMS = Path(__file__).resolve().parents[4] / "benchmarks" / "problems"


def planned(name: str) -> tuple[PipelineProblem, Schedule]:
    """A benchmark problem with AdaOffload's schedule of it."""
    problem = read_problem(json.loads((PROBLEMS / f"{name}.json").read_text()))
    return problem, adaoffload(
        problem,
        AdaOffloadSettings(
            backward_delay_tolerance_ns=5_000_000, offload_strategy=None, offload_threshold=None
        ),
        lambda: False,
        lower_bound_ns=0,
    )


@settings(max_examples=40, deadline=None)
@given(problems(), st.integers(0, 2**32))
def test_without_jitter_it_is_the_execution_at_the_given_times(
    problem: PipelineProblem, seed: int
) -> None:
    assume(find_infeasibility(problem) is None)
    safe = with_waits(problem, random_schedule(problem, Random(seed)))
    done = execute(problem, safe)
    ops = [TimedOp(*token, done.start[token], done.end[token]) for token in done.end]
    figures = jitter(problem, safe, relative=0.0, samples=3)
    assert figures.p50_ns == figures.p95_ns == figures.max_ns == objective_of_ops_ns(problem, ops)


@settings(max_examples=25, deadline=None)
@given(problems(objective="makespan"), st.integers(0, 2**32))
def test_the_makespan_varies_by_no_more_than_the_durations(
    problem: PipelineProblem, seed: int
) -> None:
    """Every path gets longer or shorter by at most the share that its parts do."""
    assume(find_infeasibility(problem) is None)
    safe = with_waits(problem, random_schedule(problem, Random(seed)))
    exact = jitter(problem, safe, relative=0.0, samples=1).max_ns
    figures = jitter(problem, safe, relative=0.2, seed=seed, samples=20)
    assert figures.p50_ns <= figures.p95_ns <= figures.max_ns <= exact * 1.2 + 1
    assert figures.p50_ns >= exact * 0.8 - 1


def test_a_seed_repeats_its_samples() -> None:
    problem, schedule = planned("offload-4x8-tight")
    safe = with_waits(problem, schedule)
    assert jitter(problem, safe, seed=7) == jitter(problem, safe, seed=7)
    assert jitter(problem, safe, seed=7).p95_ns != jitter(problem, safe, seed=8).p95_ns


def test_long_schedules_get_fewer_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, schedule = planned("offload-4x8-tight")
    monkeypatch.setattr("planner.pipeline.robust.jitter.EDGES_TO_FOLLOW", 20_000)
    assert FEWEST_SAMPLES < jitter(problem, schedule).samples < 200
    monkeypatch.setattr("planner.pipeline.robust.jitter.EDGES_TO_FOLLOW", 1)
    assert jitter(problem, schedule).samples == FEWEST_SAMPLES


def test_waits_that_deadlock_have_no_figures() -> None:
    problem, schedule = planned("offload-4x8-tight")
    first, last = schedule.ops[0].token, schedule.ops[-1].token
    with pytest.raises(ValueError, match="deadlock"):
        jitter(problem, replace(schedule, waits=(Wait(first, (last,)),)))


@pytest.mark.parametrize(
    "name", ["offload-4x8-tight", "offload-8x16-shared-switch", "zb-6.2b-8x32-offload-k1.0-mem0.25"]
)
def test_offloading_benchmarks_are_safe_with_their_waits(name: str) -> None:
    problem, schedule = planned(name)
    found = with_jitter(problem, safety(problem, schedule))
    assert found.schedule.waits
    assert verify(problem, found.schedule) == []
    document = json.loads((PROBLEMS / f"{name}.json").read_text())
    assert referee.check(document, found.schedule.to_document(None))[0] == []
    assert found.certificate()["memory_safe_under_jitter"] is True
    assert "waits" in found.certificate()["memory_safety"]
    figures = found.to_document()
    assert figures["memory_safe_for_any_durations"] is True
    assert (figures["jitter"], figures["samples"], figures["seed"]) == (0.1, 200, 0)
    value = objective_ns(problem, schedule)
    assert 0.9 * value < figures["p50_ns"] <= figures["p95_ns"] <= figures["max_ns"] < 1.1 * value
