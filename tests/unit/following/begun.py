"""Runs that have got somewhere: drifted, with a new version, running it, in another shape."""

from __future__ import annotations

from dataclasses import replace

from planner.following.look import Outcome
from planner.following.state import changed
from planner.following.step import step
from planner.following.telemetry import Sample
from planner.following.versions import VersionState
from planner.pipeline.problem import PipelineProblem
from tests.unit.following.runs import (
    ITERATION_NS,
    SETTINGS,
    Run,
    problem,
    samples,
    straggler,
    succeeded,
)

SLOWER_FROM = 40


def slow_iterations(i: int) -> float:
    """A straggler makes iterations longer."""
    return ITERATION_NS * (1.25 if i >= SLOWER_FROM else 1)


def drifted() -> Run:
    """A run with a straggler whose re-solve has been asked for at iteration 50."""
    run = Run(samples(range(200), straggler, iteration_ns=slow_iterations))
    assert run.at(39) == []
    assert run.at(50) == ["solve_asked"]
    return run


def published() -> Run:
    run = drifted()
    assert run.at(55, succeeded(run.state)) == ["published"]
    return run


def running(after: float) -> Run:
    """Version 2 runs from iteration 64 on, and iterations take `after` times as long."""
    run = published()

    def iteration_ns(i: int) -> float:
        return slow_iterations(i) * (after if i >= 64 else 1)

    run.samples = samples(range(200), straggler, iteration_ns=iteration_ns)
    run.acknowledge(2, 58)
    assert run.at(60) == ["scheduled"]
    assert run.state.version(2).apply_at_iteration == 64
    assert run.at(64) == ["running"]
    return run


def rolled_back() -> Run:
    """Version 3 is version 1 again and runs, on the profile that version 2 was made for."""
    run = running(after=1.06)
    run.at(75)
    run.acknowledge(3, 76)
    assert run.at(76) == ["scheduled"]
    assert run.at(80) == ["running"]
    assert run.state.version(3).state is VersionState.CONFIRMED
    return run


def smaller() -> PipelineProblem:
    base = problem()
    return replace(
        base, devices=base.devices[:2], stages=base.stages[:2], transfers=base.transfers[:1]
    )


def reshaped(run: Run, newest: int) -> Outcome:
    run.state = changed(run.state, smaller(), SETTINGS, newest)
    outcome = step(run.state, run.look(newest))
    run.state = outcome.state
    return outcome


def named(own: list[Sample], **values: float) -> list[Sample]:
    """These samples with some more values."""
    return [replace(sample, values={**sample.values, **values}) for sample in own]
