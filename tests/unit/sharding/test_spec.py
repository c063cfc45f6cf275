"""The canonical spec: it comes back from its document, and equal meaning gives equal hashes."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings

from planner.sharding.request import resolve_request
from planner.sharding.spec import read_spec
from tests.unit.sharding.posted import Body, bodies, repeated, two_layers

STAGED: Body = {
    "transformer": {"preset": "Llama-3-8B", "layers": 8, "embeddings": True},
    "devices": "2x8xA100-40GB",
    "stages": 4,
    "device_memory_bytes": [None, 10**10, 10**10, None],
    "alpha": [1, 0.5],
    "pin": {"qkv": "d1-r1-c4"},
    "forbid": {"fc1": ["d4-r1-c1", "d1-r4-c1"]},
    "explain": [{"operator": "fc2", "strategy": "d4-r1-c1"}],
    "objective": {"energy": 1000},
    "training": {"micro_batches": 8, "zero_stage": 1},
}
GRAPH: Body = {"graph": two_layers(), "devices": 4}


def hash_of(body: Body) -> str:
    return resolve_request(body).spec_hash


def changed(body: Body, **fields: Any) -> Body:
    return {**copy.deepcopy(body), **fields}


@settings(max_examples=60, deadline=None)
@given(bodies())
def test_a_spec_comes_back_from_its_document(body: Body) -> None:
    request = resolve_request(body)
    again = read_spec(json.loads(json.dumps(request.spec, allow_nan=False)))
    assert again == request.resolved
    assert again.hash() == request.spec_hash
    assert again.problem_hash() == request.problem_hash


def test_so_does_one_with_everything() -> None:
    request = resolve_request(STAGED)
    again = read_spec(json.loads(json.dumps(request.spec)))
    assert again == request.resolved
    assert again.stages == 4
    assert again.to_document() == request.spec


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({**GRAPH}, {**GRAPH, "alpha": 1.0, "stages": 1, "training": {"zero_stage": 0}}),
        ({**GRAPH}, {**GRAPH, "devices": {"count": 4.0}}),
        ({**GRAPH}, {**GRAPH, "alpha": [1]}),
        ({**GRAPH}, {**GRAPH, "forbid": {"up": []}, "pin": {}, "explain": []}),
        ({**GRAPH}, {**GRAPH, "solver": {"engine": "highs"}}),
        (
            {**GRAPH, "forbid": {"up": ["d1-r1-c4", "d4-r1-c1"], "down": ["d1-r4-c1"]}},
            {**GRAPH, "forbid": {"down": ["d1-r4-c1"], "up": ["d4-r1-c1", "d1-r1-c4"] * 2}},
        ),
        (
            {**GRAPH, "devices": {"count": 4, "memory_bytes": 10**9}},
            {**GRAPH, "devices": 4, "device_memory_bytes": 1e9},
        ),
        (
            {"transformer": "BERT-Large", "devices": 4},
            {"transformer": {"preset": "bert-large", "layers": 1, "batch": 8}, "devices": 4},
        ),
    ],
)
def test_what_means_the_same_has_one_hash(one: Body, other: Body) -> None:
    assert hash_of(one) == hash_of(other)
    assert resolve_request(one).problem_hash == resolve_request(other).problem_hash


def test_a_transformer_and_its_graph_are_the_same() -> None:
    request = resolve_request({"transformer": "BERT-Large", "devices": 4})
    assert hash_of({"graph": request.spec["graph"], "devices": 4}) == request.spec_hash


@pytest.mark.parametrize(
    "fields",
    [
        {"alpha": 2},
        {"alpha": [1, 2]},
        {"alpha": [2, 1]},
        {"devices": 8},
        {"devices": "4xA100-80GB"},
        {"device_memory_bytes": 10**9},
        {"training": {"zero_stage": 1}},
        {"training": {"micro_batches": 2}},
        {"training": {"sequence_parallel": True}},
        {"communication": "time"},
        {"redundancy": "mesh"},
        {"pareto": True},
        {"pin": {"up": "d1-r1-c4"}},
        {"forbid": {"up": ["d1-r1-c4"]}},
        {"explain": [{"operator": "up", "strategy": "d1-r1-c4"}]},
        {"objective": {"computation_imbalance": 1}},
        {"objective": {"energy": 1}},
        {"solver": {"exact": True}},
        {"graph": two_layers(16)},
        {"graph": repeated(3)},
        {"graph": repeated(4)},
    ],
)
def test_what_means_something_else_has_another_hash(fields: Body) -> None:
    others = [GRAPH, {**GRAPH, "graph": repeated(2)}]
    other = resolve_request(changed(GRAPH, **fields))
    assert other.spec_hash not in [hash_of(body) for body in others]
    assert other.problem_hash not in [resolve_request(body).problem_hash for body in others]


@pytest.mark.parametrize(
    "solver", [{"time_limit_s": 5}, {"mip_gap": 0.1}, {"threads": 4}, {"reductions": False}]
)
def test_how_it_is_solved_is_no_part_of_the_problem(solver: Body) -> None:
    other = resolve_request({**GRAPH, "solver": solver})
    assert other.spec_hash != hash_of(GRAPH)
    assert other.problem_hash == resolve_request(GRAPH).problem_hash
