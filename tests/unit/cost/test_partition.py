"""The partition of layers against brute force."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from planner.cost.partition import partition_layers
from planner.cost.placement import placements


@st.composite
def partition_inputs(
    draw: st.DrawFn,
) -> tuple[int, int, list[int], list[tuple[int, int]], int]:
    parts = draw(st.integers(1, 4))
    minimum = draw(st.integers(1, 2))
    layers = draw(st.integers(parts * minimum, parts * minimum + 7))
    layer_ns = draw(st.integers(0, 20))
    extra = draw(st.lists(st.integers(0, 60), min_size=parts, max_size=parts))
    bytes_of = draw(
        st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=parts, max_size=parts)
    )
    return layers, layer_ns, extra, bytes_of, minimum


@given(partition_inputs())
def test_against_brute_force(
    case: tuple[int, int, list[int], list[tuple[int, int]], int],
) -> None:
    layers, layer_ns, extra, bytes_of, minimum = case

    def memory(part: int, count: int) -> int:
        fixed, per_layer = bytes_of[part]
        return fixed + per_layer * count

    def rank(counts: tuple[int, ...]) -> tuple[int, int, int]:
        times = [e + n * max(1, layer_ns) for e, n in zip(extra, counts, strict=True)]
        sizes = [memory(part, count) for part, count in enumerate(counts)]
        return max(times), max(sizes), sum(time**2 for time in times)

    found = partition_layers(layers, layer_ns, extra, memory, minimum)
    every = (
        counts
        for counts in product(range(minimum, layers + 1), repeat=len(extra))
        if sum(counts) == layers
    )
    assert sum(found) == layers
    assert min(found) >= minimum
    assert rank(found) == min(rank(counts) for counts in every)


def test_the_head_takes_the_place_of_layers() -> None:
    assert partition_layers(22, 10, [0, 0, 0, 25], lambda _part, _count: 0) == (6, 6, 6, 4)


def test_placements_need_a_layer_per_stage() -> None:
    names = [placement.name for placement in placements(4, 16)]
    assert names == ["one_chunk", "interleaved_2", "interleaved_4", "v_shape"]
    assert [p.name for p in placements(4, 15)] == ["one_chunk", "interleaved_2", "v_shape"]
    assert [p.name for p in placements(4, 7)] == ["one_chunk"]
    assert [p.name for p in placements(1, 7)] == ["one_chunk"]
    v_shape = placements(3, 6)[-1]
    assert v_shape.device_of_stage == (0, 1, 2, 2, 1, 0)
    assert (v_shape.devices, v_shape.chunks, v_shape.stages_of(1)) == (3, 2, (1, 4))
