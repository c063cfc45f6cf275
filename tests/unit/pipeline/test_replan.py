"""Re-planning from a running schedule: verified, near its bound, never worse than what runs."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from planner.pipeline.classic.rows import NOT_REACHED, NOTHING_TO_OFFLOAD
from planner.pipeline.options import SolverDocument
from planner.pipeline.periodic.long import direct_schedules
from planner.pipeline.portfolio import heuristics
from planner.pipeline.problem import PipelineProblem, Stage
from planner.pipeline.repair import Adapted, adapted
from planner.pipeline.replan import running_start
from planner.pipeline.schedule import Schedule
from planner.pipeline.solve import run
from planner.pipeline.spec import AS_POSTED, Candidate, PipelineSpec
from planner.pipeline.verify import verify
from planner.progress import Reporter, SilentReporter, never
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


def replanned(
    problem: PipelineProblem, running: Schedule, reporter: Reporter | None = None
) -> dict[str, Any]:
    """The document of a solve that starts from the running schedule."""
    options = SolverDocument(time_limit_s=10, mip_gap=0.04).resolve()
    spec = PipelineSpec((Candidate(AS_POSTED, problem),), options)
    start = running_start(running.to_document(None))
    answer = run(spec.to_document(), reporter or SilentReporter(), never, start)
    document: dict[str, Any] = answer["document"]
    return document


def retimed(problem: PipelineProblem, running: Schedule) -> Adapted:
    """The running orders on the fresh problem."""
    return adapted(problem, running.to_document(None)["ops"], lambda: True)


def test_a_warm_solve_is_near_its_bound_and_no_worse_than_what_runs(running: Schedule) -> None:
    problem = measured(planned_for())
    baseline = retimed(problem, running).schedule
    assert verify(problem, baseline) == []
    answer = replanned(problem, running)
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
    document = replanned(measured(planned_for()), running, reporter)
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
    assert retimed(planned_for(), running).kept
    assert not retimed(tight, running).kept
