"""Whether devices may keep the columns that they computed, where frameworks run the program on
them: posted graphs of two linear layers with something between."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.export.format import Source
from planner.export.registry import export
from tests.unit.export.answers import sharding

Operator = dict[str, Any]
COLUMNS, ROWS, BATCH = "d1-r1-c4", "d1-r4-c1", "d4-r1-c1"
SPLIT = {"up": COLUMNS, "gate": COLUMNS, "down": ROWS}
KEPT = {"up": "colwise", "down": "rowwise"}
GATHERED = {"up": "colwise_gather_output", "down": "rowwise_split_input"}


def tensor(name: str, *shape: int) -> dict[str, Any]:
    return {"name": name, "shape": list(shape), "dtype": "fp32"}


def operator(name: str, kind: str, reads: str, *makes: tuple[int, ...], **fields: Any) -> Operator:
    """Its outputs are called like it, with numbers if there are several."""
    names = [name] if len(makes) == 1 else [f"{name}{number}" for number in range(len(makes))]
    outputs = [tensor(own, 8, 4, *shape) for own, shape in zip(names, makes, strict=True)]
    return {"name": name, "kind": kind, "inputs": reads.split(), "outputs": outputs, **fields}


def linear(name: str, reads: str, wide: int, width: int, **fields: Any) -> Operator:
    weights = [{"name": "weight", "shape": [wide, width]}]
    if fields.pop("bias", False):
        weights.append({"name": "bias", "shape": [width]})
    return operator(name, "linear", reads, (width,), parameters=weights, **fields)


def source(*operators: Operator, strategies: dict[str, str] = SPLIT, **graph: Any) -> Source:
    body = {
        "graph": {"inputs": [tensor("x", 8, 4, 16)], "operators": list(operators), **graph},
        "devices": 4,
    }
    chosen = {own["name"]: BATCH for own in operators} | strategies
    return sharding({name: own for name, own in chosen.items() if name in names(operators)}, body)


def names(operators: tuple[Operator, ...]) -> set[str]:
    return {own["name"] for own in operators}


def styles(given: Source) -> dict[str, str]:
    return dict(json.loads(export(given, "transformers-tp-plan")[1])["tp_plan"])


def specs(given: Source) -> dict[str, tuple[str, Any]]:
    section = json.loads(export(given, "deepspeed-autotp")[1])["tensor_parallel"]
    return {
        spec["patterns"][0].split(r"\.)?")[1].removesuffix(r"\.weight$"): (
            spec["partition_type"],
            spec.get("shape"),
        )
        for spec in section["partition_config"]["layer_specs"]
    }


def gated(bias: bool = False, **attributes: Any) -> Source:
    return source(
        linear("up", "x", 16, 64, bias=bias),
        operator("act", "glu", "up", (32,), attributes=attributes),
        linear("down", "act", 32, 16),
    )


def test_halves_of_one_projection_are_split_each() -> None:
    plan = gated(packing="blocks")
    assert styles(plan) == {"up": "packed_colwise", "down": "rowwise"}
    assert specs(plan) == {"up": ("column", [[32, 32], -1]), "down": ("row", None)}


def test_halves_with_a_bias_are_gathered_where_the_framework_would_split_it_wrongly() -> None:
    plan = gated(bias=True, packing="blocks")
    assert styles(plan) == GATHERED
    assert specs(plan)["up"] == ("column", [[32, 32], -1])
    listed = json.loads(export(plan, "transformers-tp-plan")[1])["not_expressed"]
    assert any(line.startswith("up (linear, d1-r1-c4): its output is gathered") for line in listed)


def test_neighbours_of_one_projection_are_columns_as_any() -> None:
    plan = gated(packing="groups")
    assert styles(plan) == KEPT
    assert specs(plan) == {"up": ("column", None), "down": ("row", None)}


@pytest.mark.parametrize("attributes", [{}, {"packing": "blocks", "fixed_sizes": True}])
def test_parts_that_no_device_could_have_are_gathered(attributes: dict[str, Any]) -> None:
    plan = gated(**attributes)
    assert styles(plan) == GATHERED
    assert specs(plan) == {"up": ("skip", None), "down": ("skip", None)}


def test_queries_keys_and_values_of_one_projection() -> None:
    def attention(**attributes: Any) -> Source:
        split = operator("split", "split_heads", "up", (48,), attributes=attributes)
        split["outputs"] = [tensor(name, 8, 4, 4, 4) for name in "qkv"]
        mixed = operator("mix", "attention", "q k v", (4, 4))
        mixed["outputs"] = [tensor("mix", 8, 4, 4, 4)]
        merged = operator("merge", "merge_heads", "mix", (16,))
        return source(
            linear("up", "x", 16, 48), split, mixed, merged, linear("down", "merge", 16, 16)
        )

    blocks = attention(packing="blocks")
    assert styles(blocks) == GATHERED
    assert specs(blocks) == {"up": ("column", [[16, 16, 16], -1]), "down": ("row", None)}
    assert styles(attention(packing="groups")) == KEPT
    assert styles(attention()) == GATHERED


@pytest.mark.parametrize(
    ("kind", "makes", "is_kept"),
    [
        ("gelu", [(32,)], True),
        # Columns end up elsewhere, or are taken apart.
        ("slice", [(32,)], True),
        ("split", [(16,), (16,)], False),
        ("roll", [(32,)], False),
        ("softmax", [(32,)], False),
        ("layer_norm", [(32,)], False),
    ],
)
def test_only_what_works_on_columns_alone_gets_them(
    kind: str, makes: list[tuple[int, ...]], is_kept: bool
) -> None:
    fields: dict[str, Any] = {}
    if kind == "layer_norm":
        fields["parameters"] = [{"name": "weight", "shape": [32]}]
    between = operator("act", kind, "up", *makes, **fields)
    first = "act" if len(makes) == 1 else "act0"
    plan = source(linear("up", "x", 16, 32), between, linear("down", first, makes[0][0], 16))
    found = {name: style for name, style in styles(plan).items() if name in KEPT}
    assert found == (KEPT if is_kept else GATHERED)


@pytest.mark.parametrize(("shape", "is_kept"), [((4, 8), True), ((16, 2), True), ((2, 16), False)])
def test_a_reshape_keeps_blocks_of_its_first_new_dimension(
    shape: tuple[int, int], is_kept: bool
) -> None:
    plan = source(
        linear("up", "x", 16, 32),
        operator("apart", "reshape", "up", shape),
        operator("act", "gelu", "apart", shape),
        operator("again", "reshape", "act", (32,)),
        linear("down", "again", 32, 16),
    )
    assert styles(plan) == (KEPT if is_kept else GATHERED)


def test_what_is_multiplied_has_to_be_split_alike() -> None:
    operators = (
        linear("gate", "x", 16, 32),
        linear("up", "x", 16, 32),
        operator("both", "mul", "gate up", (32,)),
        linear("down", "both", 32, 16),
    )
    assert styles(source(*operators)) == {"gate": "colwise", **KEPT}
    assert styles(source(*operators, strategies={**SPLIT, "gate": BATCH})) == GATHERED


def test_columns_that_leave_the_graph_or_meet_the_residual_are_gathered() -> None:
    ends = source(linear("up", "x", 16, 32), operator("act", "gelu", "up", (32,)))
    assert styles(ends) == {"up": "colwise_gather_output"}
    residual = source(
        linear("up", "x", 16, 16),
        operator("sum", "add", "up x", (16,)),
        linear("down", "sum", 16, 16),
    )
    assert styles(residual) == GATHERED


def test_a_module_is_split_as_all_its_calls_can_be() -> None:
    twice = source(
        linear("up", "x", 16, 16),
        linear("down", "up", 16, 16),
        linear("up@1", "down", 16, 16),
        operator("out", "softmax", "up@1", (16,)),
        strategies={**SPLIT, "up@1": COLUMNS},
    )
    assert styles(twice) == GATHERED
    fed_once = source(
        linear("up", "x", 16, 16),
        linear("down", "up", 16, 16),
        linear("down@1", "down", 16, 16),
        strategies={**SPLIT, "down@1": ROWS},
    )
    assert styles(fed_once) == GATHERED
    unlike = source(
        linear("up", "x", 16, 16), linear("up@1", "up", 16, 16), strategies={"up": COLUMNS}
    )
    assert styles(unlike) == {}


def test_a_weight_of_two_modules_is_not_split_for_one() -> None:
    tied = linear("head", "down", 16, 16)
    tied["parameters"][0]["tied_to"] = "up"
    plan = source(linear("up", "x", 16, 16), linear("down", "up", 16, 16), tied)
    assert styles(plan) == {"down": "rowwise_split_input"}


def test_a_class_that_is_no_linear_layer_is_listed() -> None:
    plan = source(
        linear("up", "x", 16, 32, attributes={"module_class": "Conv1D"}),
        linear("down", "up", 32, 16),
    )
    assert styles(plan) == {"down": "rowwise_split_input"}
    assert specs(plan) == {"down": ("skip", None)}
    for name in ("transformers-tp-plan", "dtensor-json"):
        listed = json.loads(export(plan, name)[1])["not_expressed"]
        line = next(line for line in listed if line.startswith("up ("))
        assert "of a Conv1D, which is no nn.Linear" in line


def test_what_dtensors_gather_is_listed() -> None:
    listed = json.loads(export(gated(packing="blocks"), "dtensor-json")[1])["not_expressed"]
    assert any(line.startswith("act (glu") and "gathers" in line for line in listed)
