"""Nodes of Kubernetes: the most numerous equal ones, by their labels."""

from __future__ import annotations

from typing import Any

import pytest

from client.errors import InputError
from client.importers.kubernetes_nodes import PRESETS, from_kubernetes_nodes
from planner.cost.hardware import read_cluster
from planner.cost.hardware_presets import GPU_PRESETS

RACK = "example.com/rack"


def node(name: str, rack: str = "r1", **changes: Any) -> dict[str, Any]:
    labels = {
        "nvidia.com/gpu.product": changes.get("product", "NVIDIA-H100-80GB-HBM3"),
        "nvidia.com/gpu.count": changes.get("count", "8"),
        "nvidia.com/gpu.memory": "81559",
        "topology.kubernetes.io/zone": changes.get("zone", "z1"),
        RACK: rack,
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": changes.get("cordoned", False)},
        "status": {
            "capacity": {"nvidia.com/gpu": "8", "memory": "2Ti"},
            "allocatable": {"memory": changes.get("memory", "2000Gi")},
        },
    }


def nodes(*items: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": [*items, {"metadata": {"name": "cpu"}}]}


def test_a_cluster_that_can_be_planned_on() -> None:
    racks = (node(f"n{number}", rack=f"r{number % 2}") for number in range(4))
    imported = from_kubernetes_nodes(nodes(*racks), RACK)
    assert imported.document["cluster"] == {
        "gpu": "H100-80GB",
        "nodes": 4,
        "nodes_per_rack": 2,
        "gpus_per_node": 8,
        "host_memory_bytes": 2000 * 2**30,
    }
    assert read_cluster(imported.document["cluster"]).gpus == 32


def test_only_the_most_numerous_equal_nodes_that_take_work_count() -> None:
    imported = from_kubernetes_nodes(
        nodes(
            node("a"),
            node("b", memory="1000000Ki"),
            node("c", count="4"),
            node("d", cordoned=True),
            node("e", product="NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"),
            node("f", product="NVIDIA-L40S-SHARED"),
        )
    )
    assert imported.document["cluster"]["nodes"] == 2
    assert imported.document["cluster"]["host_memory_bytes"] == 1000000 * 1024
    said = " ".join(imported.notes)
    assert "1 nodes with 4 x NVIDIA-H100-80GB-HBM3 are left out" in said
    assert "1 nodes that are cordoned" in said
    assert "2 nodes with divided or shared GPUs" in said


def test_a_gpu_without_a_preset_keeps_its_name_and_memory() -> None:
    imported = from_kubernetes_nodes(nodes(node("a", product="NVIDIA-A10")))
    assert imported.document["cluster"]["gpu"] == {
        "name": "NVIDIA-A10",
        "memory_bytes": 81559 * 2**20,
    }
    assert "add its rates" in imported.notes[0]


def test_several_zones_are_said() -> None:
    imported = from_kubernetes_nodes(nodes(node("a"), node("b", zone="z2")))
    assert any("2 zones" in note for note in imported.notes)


def test_every_product_has_a_preset() -> None:
    assert set(PRESETS.values()) <= {*GPU_PRESETS}


@pytest.mark.parametrize(
    ("document", "label", "words"),
    [
        ({}, None, "items"),
        ({"items": [3, {"metadata": None}]}, None, "no schedulable node"),
        (nodes(node("a")), "no/label", "node a has no label no/label"),
    ],
)
def test_what_cannot_be_read_is_refused(
    document: dict[str, Any], label: str | None, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        from_kubernetes_nodes(document, label)
