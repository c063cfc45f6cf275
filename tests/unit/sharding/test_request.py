"""Requests: what they resolve to, and what is said about those that cannot be solved."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from planner.errors import SpecError
from planner.sharding.request import ShardingRequest, resolve_request
from tests.unit.sharding.posted import Body, linear, operator, repeated, tensor, two_layers

BERT: Body = {"transformer": "BERT-Large", "devices": 4}
LAYERS: Body = {"transformer": {"preset": "BERT-Large", "layers": 4}, "devices": 8}
GRAPH: Body = {"graph": two_layers(), "devices": 4}


def problem_of(body: Any) -> SpecError:
    with pytest.raises(SpecError) as found:
        resolve_request(body)
    return found.value


@pytest.mark.parametrize(
    ("body", "path", "words"),
    [
        ({"devices": 4}, "graph", "Post either"),
        ({**BERT, "graph": two_layers()}, "transformer", "cannot be combined"),
        ({"transformer": "BERT-Large"}, "devices", "8xA100-40GB"),
        ({**BERT, "transformer": 5}, "transformer", "preset's name"),
        ({**BERT, "transformer": "BERT-Larg"}, "transformer.preset", "BERT-Large"),
        ({**BERT, "graph": None, "colour": 1}, "colour", "not a known field"),
        ({**BERT, "alpha": -1}, "alpha", "greater than or equal to 0"),
        ({**BERT, "alpha": "1"}, "alpha", "must be a number"),
        ({**BERT, "alpha": float("nan")}, "alpha", "finite"),
        ({**BERT, "alpha": float("inf")}, "alpha", "finite"),
        ({**BERT, "alpha": 1e10}, "alpha", "less than or equal"),
        ({**BERT, "alpha": []}, "alpha", "at least 1"),
        ({**BERT, "alpha": [1] * 65}, "alpha", "at most 64"),
        ({**BERT, "alpha": [1, "x"]}, "alpha.1", "must be a number"),
        ({**BERT, "device_memory_bytes": 0}, "device_memory_bytes", "greater than or equal to 1"),
        ({**BERT, "device_memory_bytes": "80GB"}, "device_memory_bytes", "whole number"),
        ({**BERT, "device_memory_bytes": [1.5]}, "device_memory_bytes.0", "whole number"),
        ({**BERT, "device_memory_bytes": [1, 2]}, "device_memory_bytes", "`stages` is 1"),
        ({**BERT, "stages": 3}, "stages", "does not divide"),
        ({**BERT, "stages": 2}, "stages", "repeated layers"),
        ({**LAYERS, "stages": 8}, "stages", "more than the 4 layers"),
        ({**LAYERS, "stages": 0}, "stages", "greater than or equal to 1"),
        ({**LAYERS, "stages": -2}, "stages", "Give 1 or more"),
        ({**BERT, "training": {"zero_stage": 4}}, "training.zero_stage", "less than or equal to 3"),
        ({**BERT, "training": {"precision": "fp8"}}, "training.precision", "'bf16'"),
        ({**BERT, "devices": "8xV100"}, "training.precision", "Choose another precision"),
        ({**BERT, "solver": {"engine": "gurobi"}}, "solver.engine", "'cbc' or 'highs'"),
        ({**BERT, "solver": {"time_limit_s": 0}}, "solver.time_limit_s", "greater than 0"),
        ({**BERT, "solver": {"mip_gap": 1}}, "solver.mip_gap", "less than 1"),
        ({**BERT, "communication": "latency"}, "communication", "'volume' or 'time'"),
        ({**BERT, "objective": {"energy": 1e17}}, "objective.energy", "Give at most"),
        (
            {**BERT, "objective": {"computation_imbalance": 1e9}},
            "objective.computation_imbalance",
            "Give at most",
        ),
        ({**BERT, "pin": {"qvk": "d1-r1-c4"}}, "pin.qvk", "Did you mean qkv?"),
        ({**BERT, "pin": {"qkv": "d1-r1-c3"}}, "pin.qkv", "Its strategies: d1-r1-c4, d1-r2-c2"),
        ({**BERT, "forbid": {"qkv": ["all"]}}, "forbid.qkv", "Its strategies"),
        ({**BERT, "forbid": {"zz": ["d2-r1-c2"]}}, "forbid.zz", "Its operators: x, qkv"),
        ({**BERT, "forbid": {"zz": []}}, "forbid.zz", "Its operators: x, qkv"),
        ({**BERT, "forbid": {"qkv": "d1-r1-c4"}}, "forbid.qkv", "list"),
        (
            {**BERT, "forbid": {"qkv": ["d1-r1-c4"]}, "pin": {"qkv": "d1-r1-c4"}},
            "forbid.qkv",
            "but the pinned d1-r1-c4",
        ),
        (
            {**BERT, "explain": [{"operator": "qkv", "strategy": "d1-r1-c4"}, {"operator": "q"}]},
            "explain.1.strategy",
            "required",
        ),
        ({**BERT, "explain": [{"operator": "q", "strategy": "d1"}]}, "explain.0.operator", "qkv"),
        ({**BERT, "explain": [{"operator": "qkv", "strategy": "d1"}]}, "explain.0.strategy", "d1-"),
    ],
)
def test_a_mistake_is_named_with_what_would_do(body: Body, path: str, words: str) -> None:
    problem = problem_of(body)
    assert ".".join(map(str, problem.path)) == path
    assert words in str(problem)
    assert problem.remedy


def test_nothing_is_left_of_an_operator_whose_strategies_are_all_forbidden() -> None:
    choices = resolve_request(GRAPH).preview()["operators"]
    everything = {row["name"]: row["strategies"] for row in choices}["up"]
    problem = problem_of({**GRAPH, "forbid": {"up": everything}})
    assert problem.path == ("forbid", "up")
    assert "leaves up no strategy" in problem.message


def test_shapes_are_checked_before_anything_is_queued() -> None:
    graph = two_layers()
    graph["operators"][2]["parameters"][0]["shape"] = [63, 16]
    problem = problem_of({"graph": graph, "devices": 4})
    assert problem.path == ("graph", "operators", 2, "parameters", 0)
    assert problem.remedy


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("colour", "red"),
        ("kind", "input"),
        ("name", "x"),
        ("inputs", ["nothing"]),
        ("inputs", ["down"]),
        ("inputs", ["act", "x"]),
        ("outputs", [tensor("down", 8, 17)]),
        ("outputs", [tensor("down", 8, 16, dtype="fp7")]),
        ("outputs", [tensor("x", 8, 16)]),
        ("parameters", []),
        ("parameters", [{"name": "weight", "shape": [64, 16], "tied_to": "act"}]),
        ("attributes", {"column_units": 5}),
        ("attributes", {"colum_units": 4}),
    ],
)
def test_operators_are_named_by_their_number_whatever_is_wrong(field: str, wrong: Any) -> None:
    """A number in the list as it was posted, which may begin with the operator that runs last."""
    graph = two_layers()
    graph["operators"].reverse()
    graph["operators"][0][field] = wrong
    path = problem_of({"graph": graph, "devices": 4}).path
    assert path[:3] == ("graph", "operators", 0)
    found: Any = {"graph": graph}
    # What is missing has a place of its own all the same.
    for part in path[:4]:
        found = found[part]


def test_names_may_be_long_and_strange() -> None:
    name = "layer1." + "n" * 190
    graph = {
        "inputs": [tensor("x", 4, 4)],
        "operators": [linear(name, "x", 4, 4, 4), operator("π", "gelu", [name], 4, 4)],
    }
    spec = resolve_request({"graph": graph, "devices": 2, "pin": {name: "d2-r1-c1"}}).resolved
    assert spec.pinned == {name: "d2-r1-c1"}
    unknown = problem_of({"graph": graph, "devices": 2, "pin": {"m" * 10_000: "d2-r1-c1"}})
    assert len(str(unknown)) < 1000


@pytest.mark.parametrize("name", ["layer0.up", "layer3.up"])
def test_with_layers_written_out_one_layer_can_be_meant(name: str) -> None:
    body = {"graph": repeated(4), "devices": 2, "pin": {name: "d1-r1-c2"}}
    assert problem_of(body).path == ("pin", name)
    exact = {**body, "solver": {"exact": True}}
    assert resolve_request(exact).resolved.pinned == {name: "d1-r1-c2"}
    staged = {**exact, "stages": 2}
    assert "Name all layers' operator: up." in str(problem_of(staged))


@pytest.mark.parametrize("name", ["layer4.up", "layer04.up", "layer00.up", "layer0.x", "layer.up"])
def test_layers_that_there_are_not_are_refused(name: str) -> None:
    body = {"graph": repeated(4), "devices": 2, "solver": {"exact": True}}
    assert problem_of({**body, "pin": {name: "d1-r1-c2"}}).path == ("pin", name)


def test_a_layers_pin_is_held_against_what_is_forbidden_in_all_layers() -> None:
    body = {
        "graph": repeated(4),
        "devices": 2,
        "solver": {"exact": True},
        "pin": {"layer1.up": "d1-r1-c2"},
        "forbid": {"up": ["d1-r1-c2"]},
    }
    assert "leaves layer1.up no strategy but the pinned" in str(problem_of(body))


def test_names_must_not_clash_with_those_of_layers_written_out() -> None:
    graph = repeated(4)
    graph["inputs"][0]["name"] = "layer1.up"
    graph["operators"][0]["inputs"] = ["layer1.up"]
    body = {"graph": graph, "devices": 2}
    assert resolve_request(body).operations == 7
    problem = problem_of({**body, "solver": {"exact": True}})
    assert "Rename it, or leave out `solver.exact`." in str(problem)


def test_one_number_and_a_list_of_one_are_the_same() -> None:
    one = resolve_request({**LAYERS, "alpha": 2, "device_memory_bytes": 1e10})
    listed = resolve_request({**LAYERS, "alpha": [2.0], "device_memory_bytes": [10**10]})
    assert one.resolved == listed.resolved


def test_a_limit_given_comes_before_what_the_devices_have() -> None:
    devices = {"count": 4, "memory_bytes": 7}
    assert resolve_request({**BERT, "devices": devices}).resolved.memory_limits == (7,)
    own = {**BERT, "devices": devices, "device_memory_bytes": 9}
    assert resolve_request(own).resolved.memory_limits == (9,)
    assert resolve_request(BERT).resolved.memory_limits == (None,)
    whole = resolve_request({**BERT, "devices": "4xA100-40GB"}).resolved.memory_limits[0]
    assert whole is not None
    assert 35e9 < whole < 43e9


def test_a_limit_for_all_stages_or_for_each() -> None:
    staged = {**LAYERS, "stages": 4}
    same = resolve_request({**staged, "device_memory_bytes": 10**9}).resolved.memory_limits
    assert same == (10**9,) * 4
    each = resolve_request({**staged, "device_memory_bytes": [1, None, 3, 4]}).resolved
    assert each.memory_limits == (1, None, 3, 4)


def test_the_preview_says_what_would_be_solved() -> None:
    body = {**GRAPH, "pin": {"up": "d1-r1-c4"}, "forbid": {"down": ["d1-r4-c1"]}}
    preview = resolve_request(body).preview()
    assert json.loads(json.dumps(preview)) == preview
    choices = {row["name"]: row["strategies"] for row in preview["operators"]}
    assert choices["up"] == ["d1-r1-c4"]
    assert "d1-r4-c1" not in choices["down"]
    assert len(choices["down"]) == 5
    assert any(note["what"] == "devices" for note in preview["assumptions"])


def test_the_preview_warns_of_unknown_kinds() -> None:
    graph = two_layers()
    graph["operators"][1]["kind"] = "swirl"
    warnings = resolve_request({"graph": graph, "devices": 4}).preview()["warnings"]
    assert len(warnings) == 1
    assert warnings[0].startswith("act: ")


def test_how_large_a_request_is() -> None:
    folded = resolve_request({"graph": repeated(5), "devices": 4})
    assert folded.operations == 7
    assert folded.devices == 4
    exact = resolve_request({"graph": repeated(5), "devices": 4, "solver": {"exact": True}})
    assert exact.operations == 3 + 5 * 4
    assert not folded.engine_named
    assert resolve_request({**BERT, "solver": {"engine": "cbc"}}).engine_named


def test_a_large_graph_is_resolved_in_no_time() -> None:
    count = 2000
    operators = [linear("v0", "x", 8, 8, 8)]
    operators += [linear(f"v{n}", f"v{n - 1}", 8, 8, 8) for n in range(1, count)]
    graph = {"inputs": [tensor("x", 8, 8)], "operators": operators}
    request = resolve_request({"graph": graph, "devices": 64})
    assert request.operations == count + 1


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"forbid": {"o": [1] * 90_000}}, "forbid.o.0"),
        ({"forbid": {"o": ["a"] * 300_000}}, "forbid.o"),
        ({"forbid": {str(number): [1] for number in range(90_000)}}, "forbid.0.0"),
        ({"forbid": {str(number): [] for number in range(300_000)}}, "forbid"),
        ({"pin": {str(number): 1 for number in range(90_000)}}, "pin.0"),
        ({"pin": {str(number): "a" for number in range(300_000)}}, "pin"),
        ({str(number): 1 for number in range(300_000)}, ""),
        ({"solver": {str(number): 1 for number in range(300_000)}}, "solver"),
    ],
)
def test_a_huge_wrong_request_has_one_error(change: Body, path: str) -> None:
    with pytest.raises(ValidationError) as found:
        ShardingRequest.model_validate({**BERT, **change})
    assert found.value.error_count() == 1
    assert ".".join(map(str, problem_of({**BERT, **change}).path)) == path
