"""Partitions are the best of all, within memory, and give the problem that such layers make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.following.partitions import Layers, balanced_partitions, repartitioned
from planner.pipeline.periodic.shorten import with_micro_batches
from planner.pipeline.problem import PipelineProblem
from tests.unit.following.pipelines import ACTIVATION_BYTES, layered


def nameless(problem: PipelineProblem) -> PipelineProblem:
    return replace(problem, stages=tuple(replace(stage, name=None) for stage in problem.stages))


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to give `total` layers to so many stages, at least one each."""
    if parts == 1:
        yield (total,)
        return
    for first in range(1, total - parts + 2):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def device_times(problem: PipelineProblem) -> list[int]:
    return [sum(problem.stages[s].compute_ns(0) for s in own) for own in problem.stages_of_device]


def holds(problem: PipelineProblem, held: Sequence[int]) -> bool:
    """Whether each device has memory for so many micro-batches and a backward of the next."""
    for device, own, count in zip(problem.devices, problem.stages_of_device, held, strict=True):
        if device.activation_memory_bytes is None:
            continue
        stages = [problem.stages[s] for s in own]
        needed = count * sum(stage.activation_bytes[0] for stage in stages)
        needed += max(stage.backward_allocation_bytes(0) for stage in stages)
        if needed > device.activation_memory_bytes:
            return False
    return True


def test_moved_layers_make_the_problem_that_such_layers_make() -> None:
    speeds, limits = (1, 1, 3, 1), (5_000,) * 4
    before, after = (3, 5, 4, 2), (5, 4, 2, 3)
    problem = layered(
        before, micro_batches=1, speeds=speeds, extras=(1, 2), limits=limits, static_bytes=90
    )
    layers = Layers(before, static_bytes=90, first_extra=1, last_extra=2)
    expected = layered(
        after, micro_batches=1, speeds=speeds, extras=(1, 2), limits=limits, static_bytes=90
    )
    found = repartitioned(problem, layers, after)
    assert nameless(found) == expected
    assert [stage.name for stage in found.stages] == [
        "layers 0-4",
        "layers 5-8",
        "layers 9-10",
        "layers 11-13",
    ]


def test_work_besides_layers_is_told_from_the_other_stages_and_stays() -> None:
    before, after = (3, 4, 4, 2), (4, 4, 4, 1)
    problem = layered(before, micro_batches=1, extras=(1, 2))
    found = repartitioned(problem, Layers(before), after)
    assert nameless(found) == layered(after, micro_batches=1, extras=(1, 2))


def test_what_an_end_lacks_of_the_usual_is_nothing_besides() -> None:
    """A fast first stage has fast layers, not less than no embedding."""
    problem = layered((2, 2, 2), micro_batches=1, speeds=(1, 2, 2))
    found = repartitioned(problem, Layers((2, 2, 2)), (4, 1, 1))
    assert nameless(found) == layered((4, 1, 1), micro_batches=1, speeds=(1, 2, 2))


def test_a_slow_device_gets_fewer_layers() -> None:
    problem = layered((4, 4, 4, 4), micro_batches=1, speeds=(1, 2, 1, 1))
    [partition] = balanced_partitions(problem, Layers((4, 4, 4, 4)), 8)
    assert partition == (5, 1, 5, 5)
    assert max(device_times(repartitioned(problem, Layers((4,) * 4), partition))) == 5 * 1200


@settings(max_examples=60, deadline=None)
@given(
    before=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    data=st.data(),
)
def test_no_partition_is_better(before: list[int], data: st.DataObject) -> None:
    stages = len(before)
    speeds = data.draw(st.lists(st.integers(1, 3), min_size=stages, max_size=stages))
    extras = data.draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    static = data.draw(st.sampled_from([0, 25]))
    limit = st.none() | st.integers(ACTIVATION_BYTES, 16 * ACTIVATION_BYTES)
    limits = data.draw(st.lists(limit, min_size=stages, max_size=stages))
    problem = layered(
        before,
        micro_batches=1,
        speeds=speeds,
        extras=extras,
        limits=limits,
        static_bytes=static,
    )
    layers = Layers(tuple(before), static, *map(float, extras))
    now = max(device_times(problem))
    expected = []
    for held in (tuple(range(stages, 0, -1)), (1,) * stages):
        allowed = [
            (max(times), sum(time**2 for time in times))
            for counts in compositions(sum(before), stages)
            if holds(other := repartitioned(problem, layers, counts), held)
            and max(times := device_times(other)) < now
        ]
        if allowed:
            expected.append(min(allowed))
    found = [
        (max(times), sum(time**2 for time in times))
        for counts in balanced_partitions(problem, layers, 100)
        for times in [device_times(repartitioned(problem, layers, counts))]
    ]
    assert list(dict.fromkeys(found)) == list(dict.fromkeys(expected))


@pytest.mark.parametrize("devices", [(0, 1, 1, 0), (0, 1, 0, 1)])
@pytest.mark.parametrize("speed", [1, 2, 3])
def test_devices_with_several_stages_are_as_even_as_can_be(
    devices: tuple[int, ...], speed: int
) -> None:
    before = (1, 2, 4, 3)
    speeds = [speed if device == 0 else 1 for device in devices]
    problem = layered(before, micro_batches=1, speeds=speeds, device_of_stage=devices)
    layers = Layers(before, first_extra=0, last_extra=0)
    best = min(
        max(device_times(repartitioned(problem, layers, counts))) for counts in compositions(10, 4)
    )
    for counts in balanced_partitions(problem, layers, 8):
        assert max(device_times(repartitioned(problem, layers, counts))) == best
        assert sum(counts) == 10
    assert bool(balanced_partitions(problem, layers, 8)) == (best < max(device_times(problem)))


def test_less_memory_where_fewer_micro_batches_are_held_gives_another_partition() -> None:
    """For one micro-batch alone the fast first device may take more than 1F1B lets it hold."""
    limits = (16 * ACTIVATION_BYTES, None, None)
    problem = layered((3, 4, 4), micro_batches=1, speeds=(1, 2, 2), limits=limits)
    layers = Layers((3, 4, 4))
    found = balanced_partitions(problem, layers, 8)
    assert [counts[0] for counts in found] == [5, 6]
    assert [counts[0] for counts in balanced_partitions(problem, layers, 1)] == [6]


def test_with_even_stages_there_is_nothing_better() -> None:
    problem = with_micro_batches(layered((3, 3, 3)), 1)
    assert balanced_partitions(problem, Layers((3, 3, 3)), 8) == []
