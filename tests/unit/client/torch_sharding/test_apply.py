"""Sharding plans on a layer over four processes: it computes what the whole layer does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.export.format import Source
from planner.export.registry import export
from planner.sharding.request import resolve_request

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

PROCESSES = 4
BODY = {
    "transformer": {
        "layers": 1,
        "hidden_size": 16,
        "heads": 4,
        "ffn_hidden_size": 32,
        "batch": 4,
        "sequence": 6,
    },
    "devices": PROCESSES,
}
TP4 = {"qkv": "d1-r1-c4", "proj": "d1-r4-c1", "fc1": "d1-r1-c4", "fc2": "d1-r4-c1"}
DP4 = dict.fromkeys(("qkv", "attention", "proj", "fc1", "fc2", "ln1", "ln2"), "d4-r1-c1")
MIXES: dict[str, dict[str, str]] = {
    "tp4": TP4,
    "dp4": DP4,
    "dp2-tp2": {
        "qkv": "d2-r1-c2",
        "proj": "d2-r2-c1",
        "fc1": "d2-r1-c2",
        "fc2": "d2-r2-c1",
        "ln1": "d2-r1-c2",
    },
    "attention dp4, feed-forward tp4": {
        **DP4,
        "fc1": "d1-r1-c4",
        "fc2": "d1-r4-c1",
    },
    # Weights split both ways, and a layer's two projections with different meshes.
    "row and column": {"qkv": "d1-r2-c2", "proj": "d2-r1-c2", "fc1": "d2-r2-c1", "fc2": "d1-r2-c2"},
}
FUSED = {
    "graph": {
        "inputs": [{"name": "x", "shape": [4, 6, 16], "dtype": "fp64"}],
        "operators": [
            {
                "name": "gate_up",
                "kind": "linear",
                "inputs": ["x"],
                "outputs": [{"name": "a", "shape": [4, 6, 64], "dtype": "fp64"}],
                "parameters": [
                    {"name": "weight", "shape": [16, 64]},
                    {"name": "bias", "shape": [64]},
                ],
                "attributes": {"column_units": 32},
            },
            {
                "name": "glu",
                "kind": "glu",
                "inputs": ["a"],
                "outputs": [{"name": "b", "shape": [4, 6, 32], "dtype": "fp64"}],
                "attributes": {"packing": "blocks"},
            },
            {
                "name": "down",
                "kind": "linear",
                "inputs": ["b"],
                "outputs": [{"name": "y", "shape": [4, 6, 16], "dtype": "fp64"}],
                "parameters": [
                    {"name": "weight", "shape": [32, 16]},
                    {"name": "bias", "shape": [16]},
                ],
            },
        ],
    },
    "devices": PROCESSES,
}
FUSED_TP4 = {"gate_up": "d1-r1-c4", "glu": "d1-r1-c4", "down": "d1-r4-c1"}
SHAPES = {
    "written": {"self_attn.q_proj.weight": [8, 16]},
    "fused": {"gate_up.weight": [16, 16], "gate_up.bias": [16], "down.weight": [16, 8]},
    "tp4": {"self_attn.q_proj.weight": [4, 16], "self_attn.out_proj.weight": [16, 4]},
    "dp4": {"self_attn.q_proj.weight": [16, 16], "fc2.weight": [16, 32]},
    "dp2-tp2": {"fc1.weight": [16, 16], "fc2.weight": [16, 16]},
    "attention dp4, feed-forward tp4": {
        "self_attn.q_proj.weight": [16, 16],
        "fc1.weight": [8, 16],
        "fc2.weight": [16, 8],
    },
    "row and column": {"self_attn.q_proj.weight": [8, 8], "fc2.weight": [8, 16]},
}


def plan_of(strategies: dict[str, str], body: dict[str, Any] = BODY) -> str:
    """The export of a plan with these strategies; all other operators split the batch."""
    graph = resolve_request(body).resolved.graph
    operators = [
        {"name": own.name, "strategy": strategies.get(own.name, "d4-r1-c1")}
        for own in graph.operators
    ]
    source = Source("sharding", {"plan": {"operators": operators}}, body, "job")
    return export(source, "dtensor-json")[1]


@pytest.mark.timeout(400)
def test_split_layers_compute_what_the_whole_layer_does(tmp_path: Path) -> None:
    from torch.multiprocessing import spawn

    from tests.unit.client.torch_sharding import toy

    plans = {name: ("layer", plan_of(strategies)) for name, strategies in MIXES.items()}
    plans["written"] = ("written", plan_of(MIXES["dp2-tp2"]))
    plans["fused"] = ("fused", plan_of(FUSED_TP4, FUSED))
    spawn(toy.run, (PROCESSES, str(tmp_path), plans), nprocs=PROCESSES)
    for rank in range(PROCESSES):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        for name in plans:
            assert max(found[name]["differences"].values()) <= 1e-12, (name, found[name])
            assert SHAPES[name].items() <= found[name]["parts"].items()
            # What an optimizer takes: the gradient of the part that the process has.
            assert found[name]["gradients"] == found[name]["parts"]


def test_a_plan_for_another_module_or_mesh_is_refused() -> None:
    from client.torch_sharding.apply import WrongPlan, apply_plan

    plan = json.loads(plan_of(TP4))

    class OtherMesh:
        shape = (4,)

    other: Any = OtherMesh()
    with pytest.raises(WrongPlan, match=r"device_mesh\(plan\)"):
        apply_plan(torch.nn.Linear(1, 1), plan, other)
    same: Any = OtherMesh()
    same.shape = tuple(plan["mesh"]["sizes"])
    with pytest.raises(WrongPlan, match=r"no module model\.decoder\.layers"):
        apply_plan(torch.nn.Linear(1, 1), plan, same)
    other_kind = torch.nn.ModuleDict({"net": torch.nn.Identity()})
    entry = {**plan["modules"][1], "path": "net"}
    assert entry["kind"] == "linear"
    with pytest.raises(WrongPlan, match="Identity"):
        apply_plan(other_kind, {**plan, "modules": [entry]}, same)
    with pytest.raises(WrongPlan, match="format"):
        apply_plan(torch.nn.Linear(1, 1), {**plan, "format": "other"}, same)
