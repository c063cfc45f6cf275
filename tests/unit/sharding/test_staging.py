"""Which layers stages get: what is predicted of a stage is what its solve finds."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from planner.sharding.build import formulate
from planner.sharding.least_memory import least_memory
from planner.sharding.restrictions import Restrictions
from planner.sharding.settings import cost_settings, rule_options
from planner.sharding.spec import ShardingSpec
from planner.sharding.stages import StageGraph, divide
from planner.sharding.staging import divide_among_stages
from tests.unit.sharding.posted import Body, repeated, resolved, solve
from tests.unit.sharding.test_stages import divisions


def least_bytes(spec: ShardingSpec, stage: StageGraph) -> int:
    """The least that any plan of a stage keeps, by the graph that is solved."""
    formulation = formulate(
        stage.graph,
        cost_settings(spec, micro_batches_in_flight=stage.micro_batches_in_flight),
        rule_options(spec),
        Restrictions(spec).allows,
    )
    return least_memory(formulation).total_bytes


def fits(spec: ShardingSpec, counts: tuple[int, ...]) -> bool:
    stages = divide(spec.graph, counts, spec.training.micro_batches)
    return all(
        limit is None or least_bytes(spec, stage) <= limit
        for stage, limit in zip(stages, spec.memory_limits, strict=True)
    )


def body(layers: int, **fields: Any) -> Body:
    return {"graph": repeated(layers), "devices": 4, "stages": 2, **copy.deepcopy(fields)}


TRANSFORMER: Body = {
    "transformer": {"preset": "GPT-2", "layers": 6, "embeddings": True, "batch": 4},
    "devices": 6,
    "stages": 3,
    "training": {"micro_batches": 4},
}


@pytest.mark.parametrize("base", [body(6), body(6, training={"micro_batches": 3}), TRANSFORMER])
def test_what_a_stage_keeps_at_least_is_known_before_it_is_solved(base: Body) -> None:
    """By limits of just what each stage needs: with one byte less on any another division fits."""
    spec = resolved(base)
    counts = counts_of(spec)
    stages = divide(spec.graph, counts, spec.training.micro_batches)
    needed = [least_bytes(spec, stage) for stage in stages]
    just = resolved({**base, "device_memory_bytes": needed})
    assert fits(just, counts_of(just))
    for short in range(spec.stages):
        limits = [size - (stage == short) for stage, size in enumerate(needed)]
        limited = resolved({**base, "device_memory_bytes": limits})
        assert counts_of(limited) != counts or not fits(limited, counts)


def counts_of(spec: ShardingSpec) -> tuple[int, ...]:
    return tuple(stage.layers for stage in divide_among_stages(spec, spec.memory_limits))


def test_a_stage_with_an_output_layer_gets_fewer_layers() -> None:
    counts = counts_of(resolved(TRANSFORMER))
    assert sum(counts) == 6
    assert counts[-1] < max(counts)


@pytest.mark.parametrize("base", [body(6), body(5, training={"micro_batches": 3}), TRANSFORMER])
def test_a_division_that_fits_is_found_wherever_there_is_one(base: Body) -> None:
    spec = resolved(base)
    layers = spec.graph.repeat.count if spec.graph.repeat else 1
    stages = divide(spec.graph, counts_of(spec), spec.training.micro_batches)
    needed = [least_bytes(spec, stage) for stage in stages]
    seen = set()
    for shares in ([1.0] * 3, [0.7, 1.4, 1.4], [2.0, 0.6, 1.5], [1.5, 1.5, 0.8], [0.5] * 3):
        limits = [int(share * size) for share, size in zip(shares, needed, strict=False)]
        limited = resolved({**base, "device_memory_bytes": limits})
        possible = [c for c in divisions(layers, spec.stages) if fits(limited, c)]
        assert fits(limited, counts_of(limited)) is bool(possible)
        seen.add(bool(possible))
    assert seen == {True, False}


def test_pins_are_heeded() -> None:
    """With the first stage's linear layers held whole it can hold fewer layers."""
    base = body(6, pin={"up": "d2-r1-c1", "down": "d2-r1-c1"})
    free, pinned = resolved(body(6)), resolved(base)
    one = divide(free.graph, (3, 3), 1)[0]
    limit = least_bytes(free, one)
    assert least_bytes(pinned, one) > limit
    limited = resolved({**base, "device_memory_bytes": [limit, None]})
    assert counts_of(limited)[0] < 3
    assert fits(limited, counts_of(limited))


def test_stages_of_unequal_memory_are_planned_each_within_its_own() -> None:
    spec = resolved(TRANSFORMER)
    stages = divide(spec.graph, (1, 4, 1), 4)
    limits = [int(1.4 * least_bytes(spec, stage)) for stage in stages]
    # Two layers could be kept on the first stage, but not with what is needed for a moment on top.
    assert least_bytes(spec, divide(spec.graph, (2, 3, 1), 4)[0]) < limits[0]
    answer = solve({**TRANSFORMER, "device_memory_bytes": limits}, baselines=False)
    assert answer["state"] == "succeeded"
    documents = answer["document"]["stages"]
    assert [document["layers"] for document in documents] == [1, 4, 1]
    for document, limit in zip(documents, limits, strict=True):
        assert document["plan"]["device_memory_bytes"] == limit
        assert document["plan"]["memory_bytes"] <= limit
        assert document["plan"]["predicted_peak_bytes"] <= limit
        assert document["certificate"]["fits"]
        assert document["devices"] == 2
    assert answer["objective"] == sum(d["plan"]["objective"] for d in documents)
    assert answer["document"]["certificate"]["proven_optimal"]


def test_the_stage_that_is_short_is_named() -> None:
    spec = resolved(TRANSFORMER)
    stage = divide_among_stages(spec, spec.memory_limits)[1]
    limits = [None, least_bytes(spec, stage) // 10, None]
    answer = solve({**TRANSFORMER, "device_memory_bytes": limits})
    assert answer["state"] == "infeasible"
    infeasibility = answer["document"]["infeasibility"]
    assert infeasibility["stage"] == 1
    assert infeasibility["layers"] == 1
    assert infeasibility["devices"] == 2
    assert infeasibility["device_memory_bytes"] == limits[1]
