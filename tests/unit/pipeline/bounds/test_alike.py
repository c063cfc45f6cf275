"""Bounds of micro-batches that are all alike: those of the whole problem, had from one of them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from planner.pipeline.bounds.alike import alike_bound_ns
from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.pipeline.problem import Device, PipelineProblem, Stage, Transfer

NOT_EXACT = {"memory-time", "recycling"}
"""Of these only a part is counted."""


@st.composite
def problems(draw: st.DrawFn) -> PipelineProblem:
    """Interleaved or V-shaped, with unequal stages, long hops, short memory and offloads."""
    devices, chunks = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    count, stages = draw(st.integers(1, 8)), devices * chunks

    def row(least: int, most: int) -> tuple[int, ...]:
        return (draw(st.integers(least, most)),) * count

    def stage(device: int) -> Stage:
        activation = row(1, 9)
        away = draw(st.integers(0, activation[0]))
        return Stage(
            device=device,
            forward_ns=row(1, 20),
            backward_input_ns=row(1, 20),
            backward_weight_ns=row(0, 9),
            activation_bytes=activation,
            weight_grad_bytes=row(0, 5),
            backward_workspace_bytes=row(0, 3),
            offload_bytes=(away,) * count,
            offload_ns=row(1, 30),
            reload_ns=row(1, 30),
        )

    ring = [*range(devices), *(reversed(range(devices)) if draw(st.booleans()) else range(devices))]
    limits: Any = st.one_of(st.none(), st.integers(30, 120))
    return PipelineProblem(
        micro_batches=count,
        devices=tuple(
            Device(draw(limits), epilogue_ns=draw(st.integers(0, 9))) for _ in range(devices)
        ),
        stages=tuple(stage(ring[s % len(ring)]) for s in range(stages)),
        transfers=tuple(Transfer(row(0, 60), row(0, 60)) for _ in range(stages - 1)),
    )


@given(problems())
def test_it_is_the_best_of_those_of_the_whole_problem_that_are_counted(
    problem: PipelineProblem,
) -> None:
    bounds = lower_bounds(problem)
    counted = max(bound.value_ns for bound in bounds if bound.name not in NOT_EXACT)
    assert counted <= alike_bound_ns(problem, problem.micro_batches) <= bounds[0].value_ns
