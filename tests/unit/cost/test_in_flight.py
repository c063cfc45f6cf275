"""Micro-batches in flight against the schedules themselves."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cost.in_flight import chunks_held
from planner.pipeline.classic.schedules import (
    interleaved_schedule,
    one_forward_one_backward_schedule,
)
from planner.pipeline.memory import device_memory_events, peak_bytes
from planner.pipeline.problem import Device, PipelineProblem, Stage, Transfer


def problem_of(pipeline: int, micro_batches: int, layers: list[int]) -> PipelineProblem:
    """Every layer holds a byte from its forward to its backward and takes as long as any other."""
    each = (0,) * micro_batches

    def stage(number: int) -> Stage:
        return Stage(
            device=number % pipeline,
            forward_ns=(layers[number],) * micro_batches,
            backward_input_ns=(2 * layers[number],) * micro_batches,
            backward_weight_ns=each,
            activation_bytes=(layers[number],) * micro_batches,
            weight_grad_bytes=each,
            backward_workspace_bytes=each,
            offload_bytes=each,
            offload_ns=each,
            reload_ns=each,
        )

    return PipelineProblem(
        micro_batches=micro_batches,
        devices=(Device(),) * pipeline,
        stages=tuple(stage(number) for number in range(len(layers))),
        transfers=(Transfer(each, each),) * (len(layers) - 1),
    )


def held_layers(pipeline: int, rank: int, micro_batches: int, layers: list[int]) -> int:
    own = layers[rank::pipeline]
    held = chunks_held(pipeline, rank, micro_batches, own)
    return sum(count * each for count, each in zip(held, own, strict=True))


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_as_many_layers_as_the_schedule_holds(data: st.DataObject) -> None:
    """1F1B, and Megatron-LM's interleaved order, each executed with all its dependencies."""
    pipeline, chunks = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    if pipeline == 1:
        chunks = 1
    micro_batches = pipeline * data.draw(st.integers(1, 4))
    count = pipeline * chunks
    layers = data.draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    problem = problem_of(pipeline, micro_batches, layers)
    if chunks == 1:
        timed = one_forward_one_backward_schedule(problem)
    else:
        timed = interleaved_schedule(problem, chunks)
    events = device_memory_events(problem, timed.schedule.ops)
    for rank in range(pipeline):
        expected = held_layers(pipeline, rank, micro_batches, layers)
        assert peak_bytes(events[rank])[0] == expected


@given(pipeline=st.integers(2, 64), chunks=st.integers(2, 8), rounds=st.integers(2, 8))
def test_the_first_rank_holds_what_korthikanti_et_al_say(
    pipeline: int, chunks: int, rounds: int
) -> None:
    """L (1 + (p - 1)/(p v)) layers of L, one per chunk here."""
    held = chunks_held(pipeline, 0, rounds * pipeline, (1,) * chunks)
    layers = pipeline * chunks
    assert sum(held) == layers * (1 + Fraction(pipeline - 1, layers))


@given(
    pipeline=st.integers(1, 16),
    chunks=st.integers(1, 4),
    micro_batches=st.integers(1, 40),
    rank=st.integers(0, 15),
)
def test_never_more_than_there_are(
    pipeline: int, chunks: int, micro_batches: int, rank: int
) -> None:
    rank %= pipeline
    held = chunks_held(pipeline, rank, micro_batches, (1,) * chunks)
    assert all(0 <= count <= micro_batches for count in held)
    if rank:
        before = chunks_held(pipeline, rank - 1, micro_batches, (1,) * chunks)
        assert sum(held) <= sum(before)


@pytest.mark.parametrize(
    ("rank", "held"), [(0, (4, 4, 4, 4, 4, 4, 4, 4)), (3, (4, 4, 4, 4, 4, 4, 4, 1))]
)
def test_a_batch_that_hardly_fills_the_pipeline(rank: int, held: tuple[int, ...]) -> None:
    """Four micro-batches on four ranks of eight chunks: the first rank runs all forwards first."""
    assert chunks_held(4, rank, 4, (1,) * 8) == held
