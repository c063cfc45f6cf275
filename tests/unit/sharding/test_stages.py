"""Dividing layers among pipeline stages, against trying every division; the graph of each stage."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import SpecError
from planner.sharding.graph import Graph
from planner.sharding.partition import partition
from planner.sharding.stages import check_stages, divide, in_flight, part_of
from tests.unit.sharding.posted import repeated, resolved, two_layers


def divisions(layers: int, stages: int) -> Iterator[tuple[int, ...]]:
    """Every way to give each of the stages at least one layer."""
    for ends in itertools.combinations(range(1, layers), stages - 1):
        bounds = (0, *ends, layers)
        yield tuple(b - a for a, b in itertools.pairwise(bounds))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_best_of_all_divisions(data: st.DataObject) -> None:
    stages = data.draw(st.integers(1, 5))
    layers = data.draw(st.integers(stages, 9))
    own = st.integers(0, 20)
    time_of = data.draw(st.lists(own, min_size=stages, max_size=stages))
    layer_time = data.draw(st.lists(own, min_size=stages, max_size=stages))
    size_of = data.draw(st.lists(own, min_size=stages, max_size=stages))
    layer_size = data.draw(st.lists(own, min_size=stages, max_size=stages))
    limits = data.draw(st.lists(st.none() | st.integers(0, 90), min_size=stages, max_size=stages))

    def seconds(stage: int, count: int) -> float:
        return time_of[stage] + count * layer_time[stage]

    def over_limit(stage: int, count: int) -> float:
        limit = limits[stage]
        if limit is None:
            return -float("inf")
        return size_of[stage] + count * layer_size[stage] - limit

    def figures(counts: tuple[int, ...]) -> tuple[float, float]:
        excess = max(max(0.0, over_limit(s, n)) for s, n in enumerate(counts))
        return excess, max(seconds(s, n) for s, n in enumerate(counts))

    found = partition(layers, stages, seconds, over_limit)
    assert len(found) == stages
    assert sum(found) == layers
    assert min(found) >= 1
    best = min(figures(counts) for counts in divisions(layers, stages))
    if best[0] == 0:
        assert figures(found) == best
    else:
        assert figures(found)[0] == best[0]


@pytest.mark.parametrize(
    ("layers", "stages", "expected"),
    [(8, 4, (2, 2, 2, 2)), (10, 4, (2, 2, 3, 3)), (5, 5, (1,) * 5), (7, 1, (7,))],
)
def test_equal_layers_are_spread_evenly_and_later_stages_get_the_rest(
    layers: int, stages: int, expected: tuple[int, ...]
) -> None:
    assert partition(layers, stages, lambda s, n: float(n), lambda s, n: -1.0) == expected


def test_a_thousand_layers_are_divided_quickly() -> None:
    begun = time.monotonic()
    found = partition(1024, 256, lambda s, n: float(n), lambda s, n: float(n - 9))
    assert set(found) == {4}
    assert time.monotonic() - begun < 20


def test_what_is_held_falls_from_stage_to_stage() -> None:
    assert [in_flight(stage, 4, 8) for stage in range(4)] == [4, 3, 2, 1]
    assert [in_flight(stage, 4, 2) for stage in range(4)] == [2, 2, 2, 1]


def test_a_graph_without_layers_cannot_be_divided() -> None:
    graph = resolved({"graph": two_layers(), "devices": 4}).graph
    check_stages(graph, 1)
    with pytest.raises(SpecError, match="repeated layers"):
        check_stages(graph, 2)


def names(graph: Graph) -> list[str]:
    return [operator.name for operator in graph.operators]


def test_what_is_around_the_layers_goes_to_the_first_and_the_last_stage() -> None:
    graph = resolved({"graph": repeated(6), "devices": 4}).graph
    first, middle, last = divide(graph, (1, 2, 3), micro_batches=2)
    layer = ["up", "act", "down", "out"]
    assert names(first.graph) == ["image", "x", *layer]
    assert names(middle.graph) == ["x (arrives)", *layer]
    assert names(last.graph) == ["x (arrives)", *layer, "classes"]
    assert [stage.layers for stage in (first, middle, last)] == [1, 2, 3]
    assert [stage.micro_batches_in_flight for stage in (first, middle, last)] == [2, 2, 1]
    assert [stage.graph.repeat.count for stage in (first, middle, last) if stage.graph.repeat] == [
        1,
        2,
        3,
    ]


def test_one_stage_has_the_whole_graph() -> None:
    graph = resolved({"graph": repeated(6), "devices": 4}).graph
    (whole,) = divide(graph, (6,), micro_batches=8)
    assert whole.graph is graph
    assert whole.micro_batches_in_flight == 1


def embedded(**fields: Any) -> Graph:
    transformer = {"layers": 4, "embeddings": True, **fields}
    return resolved({"transformer": transformer, "devices": 4}).graph


def test_the_targets_are_needed_on_the_last_stage_only() -> None:
    graph = embedded(preset="Llama-3-8B")
    first = part_of(graph, 2, first=True, last=False)
    last = part_of(graph, 2, first=False, last=True)
    assert "targets" in names(last)
    assert "targets" not in names(first)
    assert "tokens" in names(first)
    assert "tokens" not in names(last)


def test_a_tied_embedding_is_held_by_both_ends() -> None:
    graph = embedded(preset="GPT-2")
    assert graph.operators[graph.number_of["head"]].parameters[0].tied_to == "embedding"
    last = part_of(graph, 2, first=False, last=True)
    assert last.operators[last.number_of["head"]].parameters[0].tied_to is None


def test_what_every_layer_reads_arrives_on_every_stage() -> None:
    graph = repeated(4)
    graph["inputs"].append({"name": "mask", "shape": [8, 64], "dtype": "bf16"})
    act = next(own for own in graph["operators"] if own["name"] == "act")
    act.update(kind="mul", inputs=["up", "mask"])
    divided = divide(resolved({"graph": graph, "devices": 4}).graph, (2, 2), 1)
    assert "mask" in names(divided[0].graph)
    assert "mask (arrives)" in names(divided[1].graph)
