"""Bounds: never above what a configuration comes to."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from planner.cost.in_flight import chunks_held
from planner.cost.partition import partition_layers
from planner.training.bounds import chunks_in_flight, least_busiest
from planner.training.evaluate import Plan
from tests.unit.training.posted import body, evaluator_of, outcomes, spec_of


@given(
    layers=st.integers(1, 60),
    layer_ns=st.integers(0, 50),
    extras=st.lists(st.integers(0, 400), min_size=1, max_size=8),
    minimum=st.integers(1, 3),
)
def test_the_busiest_part_is_that_of_the_partition(
    layers: int, layer_ns: int, extras: list[int], minimum: int
) -> None:
    layers = max(layers, minimum * len(extras))
    counts = partition_layers(layers, layer_ns, extras, lambda _part, count: count, minimum)
    each = max(1, layer_ns)
    busiest = max(extra + count * each for extra, count in zip(extras, counts, strict=True))
    assert least_busiest(layers, layer_ns, extras, minimum) == busiest


@given(
    pipeline=st.integers(1, 8),
    chunks=st.integers(1, 4),
    rounds=st.integers(1, 4),
    data=st.data(),
)
def test_chunks_in_flight_are_those_of_the_footprint(
    pipeline: int, chunks: int, rounds: int, data: Any
) -> None:
    device = data.draw(st.integers(0, pipeline - 1))
    count = pipeline * rounds
    held = chunks_held(pipeline, device, count, (1,) * chunks)
    assert chunks_in_flight(pipeline, chunks, count, device) == sum(held)


def test_no_bound_is_above_the_configuration() -> None:
    spec = spec_of(
        body(
            gpu={"memory_bytes": 2 * 2**30},
            model={"layers": 10},
            training={"global_batch_size": 16},
            search={"micro_batch_size": [1, 2], "interleaving": [1, 2, 5]},
        )
    )
    bounds = evaluator_of(spec).bounds
    checked = 0
    for outcome in outcomes(spec):
        least = bounds.least_time(outcome.training)
        assert bounds.states_bytes(outcome.training) <= max(
            rank.static_bytes for rank in outcome.ranks
        )
        if not isinstance(outcome, Plan):
            continue
        step = outcome.step
        assert least.any_schedule_ns <= step.bound_ns
        beyond_ns = step.epilogue_ns + step.forced_idle_ns
        assert step.total_ns - beyond_ns <= least.closed_form_ns <= step.total_ns
        assert bounds.may_hold(outcome.training, outcome.peak_bytes)
        checked += 1
    assert checked > 100


def test_bounds_for_several_zero_stages_hold_for_each() -> None:
    spec = spec_of(body(training={"tensor_parallel": 1, "micro_batch_size": 1}))
    bounds = evaluator_of(spec).bounds
    for outcome in outcomes(spec):
        of_all = bounds.least_time(outcome.training, (0, 1, 2, 3))
        own = bounds.least_time(outcome.training)
        assert of_all.closed_form_ns <= own.closed_form_ns
        assert of_all.any_schedule_ns <= own.any_schedule_ns
