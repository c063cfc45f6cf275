"""Re-planning from a running schedule: verified, near its bound, never worse than what runs."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from planner.errors import OrderError
from planner.pipeline import verify as verifying
from planner.pipeline.classic.rows import NOT_REACHED, NOTHING_TO_OFFLOAD
from planner.pipeline.options import SolverDocument
from planner.pipeline.periodic.long import direct_schedules
from planner.pipeline.portfolio import heuristics
from planner.pipeline.problem import PipelineProblem, Stage
from planner.pipeline.replan import replan, retimed
from planner.pipeline.schedule import Schedule
from planner.pipeline.verify import verify
from planner.progress import SilentReporter
from tests.problems import uniform_problem

STAGES, MICRO_BATCHES, STRAGGLER = 32, 64, 20


def planned_for() -> PipelineProblem:
    """Equal stages, room for what 1F1B holds."""
    return uniform_problem(
        devices=STAGES,
        micro_batches=MICRO_BATCHES,
        forward_ns=1_000,
        backward_input_ns=1_000,
        backward_weight_ns=1_000,
        activation_bytes=2,
        weight_grad_bytes=1,
        limit=2 * STAGES,
    )


def measured(problem: PipelineProblem) -> PipelineProblem:
    """The same as it turns out: times up to 10 % off, and one stage 30 % slower."""
    random = Random(3)

    def off(values: tuple[int, ...], factor: float) -> tuple[int, ...]:
        return (round(values[0] * factor * random.uniform(0.9, 1.1)),) * len(values)

    def turned_out(s: int, stage: Stage) -> Stage:
        factor = 1.3 if s == STRAGGLER else 1.0
        return replace(
            stage,
            forward_ns=off(stage.forward_ns, factor),
            backward_input_ns=off(stage.backward_input_ns, factor),
            backward_weight_ns=off(stage.backward_weight_ns, factor),
        )

    return replace(problem, stages=tuple(turned_out(*own) for own in enumerate(problem.stages)))


@pytest.fixture(scope="module")
def running() -> Schedule:
    return next(direct_schedules(planned_for(), lambda: True))


def test_a_warm_solve_is_near_its_bound_and_no_worse_than_what_runs(running: Schedule) -> None:
    problem = measured(planned_for())
    baseline = retimed(problem, running)
    assert verify(problem, baseline) == []
    options = SolverDocument(time_limit_s=10, mip_gap=0.04).resolve()
    answer = replan(problem, running, options)["document"]
    certificate, origin = answer["certificate"], answer["provenance"]["started_from"]
    assert certificate["verified"]
    assert certificate["gap"] <= 0.05
    assert origin["kind"] == "running_plan"
    assert origin["kept"]
    assert origin["objective_ns"] == baseline.makespan_ns
    assert certificate["value_ns"] <= baseline.makespan_ns


def test_in_a_hurry_all_time_goes_to_the_answer(
    monkeypatch: pytest.MonkeyPatch, running: Schedule
) -> None:
    monkeypatch.setattr(heuristics, "HURRIED_S_PER_OPERATION", 1.0)
    reporter = Recorder()
    options = SolverDocument(time_limit_s=10, mip_gap=0.04).resolve()
    document = replan(measured(planned_for()), running, options, reporter)["document"]
    assert document["certificate"]["memory_safe_under_jitter"]
    assert document["replacement"]["gain"] >= 0
    assert document["provenance"]["left_out"] == "no jitter samples: the time was up"
    assert reporter.incumbents == 0
    assert {row["reason"] for row in document["comparison"]} <= {NOT_REACHED, NOTHING_TO_OFFLOAD}


class Recorder(SilentReporter):
    """Counts the schedules that are reported."""

    def __init__(self) -> None:
        self.incumbents = 0

    def incumbent(self, document: dict[str, Any], objective: float, found_by: str) -> None:
        self.incumbents += 1


def test_orders_that_no_longer_fit_are_said_so(running: Schedule) -> None:
    problem = planned_for()
    tight = replace(
        problem, devices=tuple(replace(d, activation_memory_bytes=8) for d in problem.devices)
    )
    with pytest.raises(OrderError, match="do not keep the limits"):
        retimed(tight, running)


def test_verifying_by_arrays_finds_what_breaks(
    monkeypatch: pytest.MonkeyPatch, running: Schedule
) -> None:
    problem = planned_for()
    assert verify(problem, running) == []
    monkeypatch.setattr(verifying, "ARRAYS_FROM_OPERATIONS", 0)
    assert verify(problem, running) == []
    ops = list(running.ops)
    late = next(k for k, op in enumerate(ops) if op.op == "B")
    ops[late] = ops[late]._replace(start_ns=0, end_ns=1_000)
    assert verify(problem, replace(running, ops=tuple(ops)))
    assert verify(problem, replace(running, makespan_ns=running.makespan_ns + 1))
    assert verify(problem, replace(running, peak_memory_bytes=(0,) * STAGES))
