"""Sharding plans as what frameworks split modules by."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from planner.errors import CannotExport
from planner.export.format import Source
from planner.export.registry import export
from planner.export.sharding_targets.dtensor_json import prime_factors, role_of_dimensions
from planner.sharding.operators.registry import rules_of
from planner.sharding.request import resolve_request
from planner.sharding.settings import rule_options
from planner.sharding.strategies import strategies_of
from tests.unit.export.answers import BY_COLUMNS_AND_ROWS, MOE, sharding, training

TARGETS = ("dtensor-json", "megatron-flags", "deepspeed-autotp", "transformers-tp-plan")
NAMES = ("qkv", "proj", "fc1", "fc2")
ALL_DATA = dict.fromkeys(BY_COLUMNS_AND_ROWS, "d4-r1-c1")
TWO_BY_TWO = {"qkv": "d2-r1-c2", "proj": "d2-r2-c1", "fc1": "d2-r1-c2", "fc2": "d2-r2-c1"}
MIXED = {**ALL_DATA, "fc1": "d1-r1-c4", "fc2": "d1-r4-c1"}
GRAPH: dict[str, Any] = {
    "graph": {
        "inputs": [{"name": "x", "shape": [8, 4, 16], "dtype": "fp32"}],
        "operators": [
            {
                "name": "net.3.up",
                "kind": "linear",
                "inputs": ["x"],
                "outputs": [{"name": "a", "shape": [8, 4, 32], "dtype": "fp32"}],
                "parameters": [{"name": "weight", "shape": [16, 32]}],
            },
            {
                "name": "act",
                "kind": "gelu",
                "inputs": ["a"],
                "outputs": [{"name": "b", "shape": [8, 4, 32], "dtype": "fp32"}],
            },
            {
                "name": "net.3.down",
                "kind": "linear",
                "inputs": ["b"],
                "outputs": [{"name": "y", "shape": [8, 4, 16], "dtype": "fp32"}],
                "parameters": [{"name": "weight", "shape": [32, 16]}],
            },
        ],
    },
    "devices": 4,
}
UP_DOWN = {"net.3.up": "d1-r1-c4", "net.3.down": "d1-r4-c1"}


def document(source: Source, name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(export(source, name)[1])
    return read


def entry(source: Source, path: str) -> dict[str, Any]:
    (found,) = (
        each for each in document(source, "dtensor-json")["modules"] if each["path"] == path
    )
    return dict(found)


def refusal(source: Source, name: str) -> str:
    with pytest.raises(CannotExport) as caught:
        export(source, name)
    return str(caught.value)


@pytest.mark.parametrize(
    ("strategy", "taken", "weight"),
    [
        ("d4-r1-c1", ["shard(0)", "shard(0)"], ["replicate", "replicate"]),
        ("d1-r1-c4", ["replicate", "replicate"], ["shard(0)", "shard(0)"]),
        ("d1-r4-c1", ["shard(-1)", "shard(-1)"], ["shard(1)", "shard(1)"]),
        ("d2-r1-c2", ["shard(0)", "replicate"], ["replicate", "shard(0)"]),
        ("d2-r2-c1", ["shard(0)", "shard(-1)"], ["replicate", "shard(1)"]),
        ("d1-r2-c2", ["shard(-1)", "replicate"], ["shard(1)", "shard(0)"]),
    ],
)
def test_a_linear_layers_placements_are_those_of_its_roles(
    strategy: str, taken: list[str], weight: list[str]
) -> None:
    found = entry(sharding({"proj": strategy}), "model.layers.*.self_attn.o_proj")
    assert (found["strategy"], found["input"]) == (strategy, taken)
    assert found["parameters"]["weight"] == weight


def test_a_split_sequence_is_gathered_for_a_linear_layer_and_scattered_behind_it() -> None:
    request = {
        "transformer": {"preset": "BERT-Large", "layers": 1, "batch": 8, "sequence": 64},
        "devices": 4,
        "training": {"sequence_parallel": True},
    }
    source = sharding({"proj": "d1-r4-c1-sp", "fc1": "d1-r1-c4-sp"}, request)
    row = entry(source, "bert.encoder.layer.*.attention.output.dense")
    assert row["input"] == ["shard(-1)", "shard(-1)"]
    assert row["output"] == ["shard(1)", "shard(1)"]
    assert row["parameters"]["bias"] == ["replicate", "replicate"]
    column = entry(source, "bert.encoder.layer.*.intermediate.dense")
    assert column["input"] == ["replicate", "replicate"]
    assert column["output"] == ["shard(-1)", "shard(-1)"]
    assert column["parameters"]["bias"] == ["shard(0)", "shard(0)"]


@pytest.mark.parametrize("devices", [1, 2, 4, 6, 8, 12, 24, 30])
def test_every_strategy_has_dimensions_of_the_prime_factor_mesh(devices: int) -> None:
    mesh = prime_factors(devices)
    graph = resolve_request(
        {
            "transformer": {"hidden_size": 240, "heads": 120, "batch": 240, "sequence": 8},
            "devices": devices,
        }
    ).resolved
    (operator,) = (own for own in graph.graph.operators if own.name == "fc1")
    for strategy in strategies_of(rules_of(operator, graph.graph, rule_options(graph)), devices):
        sizes = {None: 1, 0: 1, 1: 1, 2: 1}
        for role, size in zip(role_of_dimensions(strategy, mesh), mesh, strict=True):
            sizes[role] *= size
        assert (sizes[None], sizes[0], sizes[1], sizes[2]) == (
            strategy.spare,
            *strategy.degrees,
        )


@pytest.mark.parametrize("name", TARGETS)
def test_every_linear_layer_of_the_plan_is_in_the_file_or_refused(name: str) -> None:
    """Changing how one is split changes the file."""
    for operator, other in zip(
        NAMES, ("d2-r1-c2", "d4-r1-c1", "d2-r2-c1", "d4-r1-c1"), strict=True
    ):
        source = sharding({**BY_COLUMNS_AND_ROWS, operator: other})
        if name == "megatron-flags":
            assert "pin these four" in refusal(source, name)
        else:
            assert export(source, name)[1] != export(sharding(), name)[1]


def test_what_transformers_cannot_split_is_listed() -> None:
    plan = document(sharding(MIXED), "transformers-tp-plan")
    assert {name.rpartition(".")[2] for name in plan["tp_plan"]} == {
        "gate_proj",
        "up_proj",
        "down_proj",
    }
    assert any(line.startswith("qkv (linear, d4-r1-c1)") for line in plan["not_expressed"])


def test_a_column_layer_before_no_row_layer_gathers_its_output() -> None:
    alone = document(sharding({**ALL_DATA, "fc1": "d1-r1-c4"}), "transformers-tp-plan")["tp_plan"]
    assert set(alone.values()) == {"colwise_gather_output"}
    alone = document(sharding({**ALL_DATA, "fc2": "d1-r4-c1"}), "transformers-tp-plan")["tp_plan"]
    assert set(alone.values()) == {"rowwise_split_input"}
    # DeepSpeed has neither: there every device computes the layer.
    for strategies in ({"fc1": "d1-r1-c4"}, {"fc2": "d1-r4-c1"}):
        section = document(sharding({**ALL_DATA, **strategies}), "deepspeed-autotp")
        specs = section["tensor_parallel"]["partition_config"]["layer_specs"]
        assert {spec["partition_type"] for spec in specs} == {"skip"}


def test_patterns_of_deepspeed_are_of_whole_names() -> None:
    section = document(sharding(), "deepspeed-autotp")["tensor_parallel"]
    assert section["autotp_size"] == 4
    specs = section["partition_config"]["layer_specs"]
    (down,) = (spec for spec in specs if "down_proj" in spec["patterns"][0])
    assert down["partition_type"] == "row"
    (pattern,) = down["patterns"]
    assert re.match(pattern, "model.layers.11.mlp.down_proj.weight")
    assert re.match(pattern, "module.model.layers.11.mlp.down_proj.weight")
    assert not re.match(pattern, "model.layers.11.mlp.down_proj_2.weight")
    assert not re.match(pattern, "model.layersx11.mlp.down_proj.weight")


@pytest.mark.parametrize(
    ("strategies", "flags"),
    [
        (BY_COLUMNS_AND_ROWS, "--tensor-model-parallel-size 4"),
        (TWO_BY_TWO, "--tensor-model-parallel-size 2"),
        (ALL_DATA, "--tensor-model-parallel-size 1"),
    ],
)
def test_megatron_is_told_how_many_devices_share_a_layer(
    strategies: dict[str, str], flags: str
) -> None:
    lines = export(sharding(strategies), "megatron-flags")[1].splitlines()
    assert lines[lines.index("LOADMASTER_ARGS=(") :] == ["LOADMASTER_ARGS=(", f"  {flags}", ")"]


def test_megatron_splits_all_layers_alike() -> None:
    said = refusal(sharding(MIXED), "megatron-flags")
    assert "fc1 (linear, d1-r1-c4)" in said
    assert "pin" in said
    assert "post `transformer`" in refusal(sharding(UP_DOWN, GRAPH), "megatron-flags")


def test_operators_of_a_posted_graph_are_modules_of_their_names() -> None:
    plan = document(sharding(UP_DOWN, GRAPH), "transformers-tp-plan")
    assert plan["tp_plan"] == {"net.3.up": "colwise", "net.3.down": "rowwise"}
    paths = [each["path"] for each in document(sharding(UP_DOWN, GRAPH), "dtensor-json")["modules"]]
    assert paths == ["net.3.up", "net.3.down"]


def test_each_call_of_a_module_is_that_module() -> None:
    operators = [
        {**operator, "name": name}
        for operator, name in zip(
            GRAPH["graph"]["operators"], ("net.up", "act", "net.up@1"), strict=True
        )
    ]
    source = sharding({}, {**GRAPH, "graph": {**GRAPH["graph"], "operators": operators}})
    paths = [each["path"] for each in document(source, "dtensor-json")["modules"]]
    assert paths == ["net.up", "net.up"]


def test_of_repeated_layers_any_number_is_meant() -> None:
    graph = {**GRAPH["graph"], "repeat": {"count": 5, "input": "x", "output": "y"}}
    source = sharding(UP_DOWN, {**GRAPH, "graph": graph})
    assert set(document(source, "transformers-tp-plan")["tp_plan"]) == {"net.*.up", "net.*.down"}
    # Each layer its own: the plan has an operator per layer.
    rows = [
        {"name": f"layer{layer}.{name}", "kind": "linear", "strategy": strategy}
        for layer in range(5)
        for name, strategy in {**UP_DOWN, "act": "d1-r1-c4"}.items()
    ]
    apart = replace(source, answer={"plan": {"operators": rows}})
    names = set(document(apart, "transformers-tp-plan")["tp_plan"])
    assert names == {f"net.{layer}.{part}" for layer in range(5) for part in ("up", "down")}


def test_experts_are_listed_as_not_expressed() -> None:
    request = {"transformer": {**MOE, "layers": 1, "batch": 8}, "devices": 4}
    for name in ("dtensor-json", "transformers-tp-plan"):
        said = document(sharding(BY_COLUMNS_AND_ROWS, request), name)["not_expressed"]
        assert any(line.startswith("experts (experts,") for line in said)


@pytest.mark.parametrize("name", TARGETS)
def test_without_its_request_a_plan_names_no_modules(name: str) -> None:
    assert "post it again" in refusal(replace(sharding(), request=None), name)
    unknown = replace(sharding({"qkv": "d3-r1-c1"}))
    assert "post it again" in refusal(unknown, name)


@pytest.mark.parametrize("name", TARGETS)
def test_stages_that_differ_are_refused(name: str) -> None:
    source = sharding()
    one = source.answer
    other = sharding(ALL_DATA).answer
    request = {**dict(source.request or {}), "devices": 8, "stages": 2}
    same = replace(source, answer={"stages": [one, one]}, request=request)
    assert export(same, name)[1].replace("8 devices", "4 devices") == export(source, name)[1]
    differ = replace(same, answer={"stages": [one, other]})
    assert "stages: 1" in refusal(differ, name)


@pytest.mark.parametrize("name", ["dtensor-json", "deepspeed-autotp", "transformers-tp-plan"])
def test_a_training_plan_has_the_split_of_its_tensor_groups(name: str) -> None:
    text = export(training(), name)[1]
    # The split of a layer on two GPUs, for all layers.
    assert "self_attn" in text
    assert {
        "dtensor-json": '"sizes": [\n      2\n    ]',
        "deepspeed-autotp": '"autotp_size": 2',
        "transformers-tp-plan": '"tensor_parallel_size": 2',
    }[name] in text


def test_a_training_plan_without_a_split_says_why() -> None:
    assert "Not solved yet." in refusal(training(solved=False), "dtensor-json")
    older = training()
    older.answer["best"].update(sharding=None, left_out={})
    assert "does not say why" in refusal(older, "transformers-tp-plan")
