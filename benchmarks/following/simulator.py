"""A training run that executes a schedule's orders and waits under true, jittering durations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.following.scenarios import Scenario, Truth
from planner.following.estimates import Key
from planner.following.telemetry import Sample
from planner.pipeline.kernel.tables import KINDS, RELOAD, Integers, parts_of, tables_of
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.robust.execution import Execution, Floats
from planner.pipeline.schedule import Schedule

HICCUPS_PER_ITERATION = 0.02
HICCUP_FACTOR = 1.5
"""Now and then all operations of a stage take so much longer for one iteration."""
SLOW_OPERATIONS = 0.001
SLOW_FACTOR = 3.0
QUANTITY = {
    "F": "forward_ns",
    "B": "backward_input_ns",
    "W": "backward_weight_ns",
    "O": "offload_ns",
    "R": "reload_ns",
}


@dataclass(frozen=True)
class Iteration:
    """How long an iteration took, and what its ranks report."""

    iteration_ns: int
    samples: tuple[Sample, ...]


class Ranks:
    """All ranks of a run under one plan. `problem` is what the planner was told; operations take
    its times by the scenario's factors and a jitter of their own, the same under every plan."""

    def __init__(self, scenario: Scenario, problem: PipelineProblem, schedule: Schedule) -> None:
        self._scenario = scenario
        self._problem = problem
        self._execution = Execution(problem, schedule, within_memory=True)
        tables = tables_of(problem)
        self._operations = len(tables.ops)
        kinds, stages, _ = parts_of(tables, self._execution.numbers)
        self._is_transfer = kinds >= RELOAD
        self._reported: list[tuple[Key, Integers]] = [
            ((s, QUANTITY[kind]), np.flatnonzero((kinds == k) & (stages == s)))
            for s in range(len(problem.stages))
            for k, kind in enumerate(KINDS)
            if ((kinds == k) & (stages == s)).any()
        ]

    def run(self, i: int, version: int) -> Iteration:
        """One iteration."""
        truth = self._scenario.truth(i)
        duration_ns = self._durations_ns(i, truth)
        iteration_ns = round(self._execution.objective_ns(duration_ns))
        values: dict[int, dict[str, int | float]] = {}
        busy_ns: dict[int, float] = {}
        for (s, name), positions in self._reported:
            own = values.setdefault(s, dict(self._memory(s)))
            own[name] = round(float(np.median(duration_ns[positions])))
            if name in ("offload_ns", "reload_ns"):
                busy_ns[s] = max(busy_ns.get(s, 0.0), float(duration_ns[positions].sum()))
        for s, busy in busy_ns.items():
            values[s]["link_busy_share"] = min(1.0, busy / iteration_ns)
        samples = tuple(
            Sample(i, s, {**own, "iteration_ns": iteration_ns, "plan_version": version})
            for s, own in values.items()
        )
        return Iteration(iteration_ns, samples)

    def _memory(self, s: int) -> Iterator[tuple[str, int]]:
        stage = self._problem.stages[s]
        yield "forward_memory_delta_bytes", stage.activation_bytes[0]
        yield "backward_memory_delta_bytes", stage.late_bytes(0) - stage.activation_bytes[0]

    def _durations_ns(self, i: int, truth: Truth) -> Floats:
        execution = self._execution
        stage = execution.stage
        factors = np.where(self._is_transfer, truth.link[stage], truth.compute[stage])
        durations_ns: Floats = execution.duration_ns * factors * self._noise(i)[execution.numbers]
        return durations_ns

    def _noise(self, i: int) -> Floats:
        """By operation number, so that the luck of a run does not depend on its plan."""
        random = np.random.default_rng((self._scenario.seed, i))
        noise = np.exp(self._scenario.jitter * random.standard_normal(self._operations))
        noise[random.random(self._operations) < SLOW_OPERATIONS] *= SLOW_FACTOR
        if random.random() < HICCUPS_PER_ITERATION:
            stages = len(self._problem.stages)
            by_stage = noise.reshape(len(KINDS), stages, -1)
            by_stage[:, random.integers(stages)] *= HICCUP_FACTOR
        return noise


def true_problem(problem: PipelineProblem, truth: Truth) -> PipelineProblem:
    """The problem with its true times, which only an oracle knows."""

    def scaled(times: tuple[int, ...], factor: float) -> tuple[int, ...]:
        return tuple(round(time_ns * factor) for time_ns in times)

    return replace(
        problem,
        stages=tuple(
            replace(
                stage,
                forward_ns=scaled(stage.forward_ns, compute),
                backward_input_ns=scaled(stage.backward_input_ns, compute),
                backward_weight_ns=scaled(stage.backward_weight_ns, compute),
                offload_ns=scaled(stage.offload_ns, link),
                reload_ns=scaled(stage.reload_ns, link),
            )
            for stage, compute, link in zip(
                problem.stages, truth.compute.tolist(), truth.link.tolist(), strict=True
            )
        ),
    )
