"""Cluster documents and GPU presets."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost.degrees import Degrees
from planner.cost.hardware import read_cluster
from planner.cost.hardware_presets import GPU_ALIASES, GPU_PRESETS
from planner.cost.links import find_host_links, rank_tier
from planner.cost.routes import Tier
from planner.errors import SpecError
from planner.sizes import GIB

OWN_GPU = {
    "memory_bytes": 24 * GIB,
    "fp16_flop_per_s": 1e14,
    "hbm_bytes_per_s": 1e12,
    "pcie_bytes_per_s": 2e10,
}


def test_every_preset_reads_and_has_a_source() -> None:
    assert set(GPU_ALIASES.values()) == set(GPU_PRESETS)
    for name, preset in GPU_PRESETS.items():
        gpu = read_cluster({"gpu": name, "gpus_per_node": 8}).gpu
        assert preset.source
        assert gpu.name == name
        named = int(name.split("-")[1].removesuffix("GB")) * 10**9
        assert 0.95 * named < gpu.memory_bytes < 1.075 * named
        assert (gpu.peak_flop_per_s("bf16") is None) == (name == "V100-32GB")


@pytest.mark.parametrize("spelling", ["A100-40", "a100_40gb", "A100 40GB", "A100-SXM4-40GB"])
def test_spellings(spelling: str) -> None:
    assert read_cluster({"gpu": spelling, "gpus_per_node": 1}).gpu.name == "A100-40GB"


def test_text_form() -> None:
    cluster = read_cluster("4x8xH100")
    assert (cluster.nodes, cluster.gpus_per_node, cluster.gpu.name) == (4, 8, "H100-80GB")
    assert read_cluster("8xA100-40GB").gpus == 8
    assert read_cluster("8 x A100-40GB") == read_cluster({"gpu": "A100-40", "gpus_per_node": 8})


def test_own_gpu_and_overrides() -> None:
    cluster = read_cluster({"gpu": OWN_GPU, "gpus_per_node": 2, "gpu_memory_bytes": 10**9})
    assert cluster.memory_bytes == 10**9
    assert cluster.gpu.name == "own GPU"
    # Without NVLink neighbours talk over PCIe at its efficiency.
    assert cluster.link_bytes_per_s == 0.8 * 2e10
    faster = read_cluster(
        {
            "gpu": {"preset": "A100-40GB", "pcie_bytes_per_s": 5e10},
            "gpus_per_node": 2,
            "efficiency": {"pcie": 1.0},
            "inter_node_bytes_per_s": 1e9,
        }
    )
    assert faster.host_bytes_per_s == 5e10
    assert faster.network_bytes_per_s == 0.8e9
    assert faster.gpu.bf16_flop_per_s == 312e12


def test_pcie_topology() -> None:
    assert read_cluster("8xA100-40GB").switch_of == (0, 0, 1, 1, 2, 2, 3, 3)
    assert read_cluster("4xH100").switch_of == (0, 1, 2, 3)
    base = {"gpu": "A100-40GB", "gpus_per_node": 4}
    assert read_cluster(base | {"pcie_topology": "full_mesh"}).switch_of == (0, 1, 2, 3)
    grouped = read_cluster(base | {"pcie_switches": [[0, 3]]}).switch_of
    assert grouped[0] == grouped[3]
    assert len(set(grouped)) == 3


def test_ranks_share_links() -> None:
    pairs = read_cluster("8xA100-40GB")
    links = find_host_links(pairs, Degrees(8, 1, 1))
    assert links.link_of_rank[0] == links.link_of_rank[1] != links.link_of_rank[2]
    assert links.sharers == 1
    # The two GPUs of a tensor group share their switch with each other, not with other ranks.
    tensor = find_host_links(pairs, Degrees(4, 2, 1))
    assert set(tensor.link_of_rank) == {None}
    assert tensor.sharers == 2
    nodes = find_host_links(read_cluster("2x4xH100"), Degrees(4, 1, 2))
    assert nodes.host_of_rank == (0, 0, 1, 1)
    assert nodes.gpus_per_host == 2


def test_transfers_inside_and_between_nodes() -> None:
    cluster = read_cluster("2x4xH100")
    assert rank_tier(cluster, Degrees(8, 1, 1), 0, 3) is Tier.NODE
    assert rank_tier(cluster, Degrees(8, 1, 1), 3, 4) is Tier.RACK
    assert rank_tier(cluster, Degrees(2, 4, 1), 0, 1) is Tier.RACK


@pytest.mark.parametrize(
    ("fields", "path", "says"),
    [
        (5, ("cluster",), "must be a text"),
        ("eight GPUs", ("cluster",), "is not a cluster"),
        ("8xA100", ("cluster",), "Did you mean A100"),
        ({"gpus_per_node": 8}, ("cluster", "gpu"), "required"),
        ({"gpu": "H100"}, ("cluster", "gpus_per_node"), "required"),
        ({"gpu": "TPU", "gpus_per_node": 8}, ("cluster", "gpu"), "Known: V100"),
        ({"gpu": {}, "gpus_per_node": 8}, ("cluster", "gpu", "memory_bytes"), "is required"),
        ({"gpu": {"ram": 1}, "gpus_per_node": 8}, ("cluster", "gpu", "ram"), "not a known"),
        ({"gpu": "H100", "gpus_per_node": 0}, ("cluster", "gpus_per_node"), "greater"),
        ({"gpu": "H100", "gpus_per_node": 1024, "nodes": 1024}, ("cluster", "nodes"), "at most"),
        (
            {"gpu": "H100", "gpus_per_node": 8, "efficiency": {"compute": float("nan")}},
            ("cluster", "efficiency", "compute"),
            "finite",
        ),
        (
            {"gpu": "H100", "gpus_per_node": 8, "efficiency": {"pcie": 1.5}},
            ("cluster", "efficiency", "pcie"),
            "less than or equal to 1",
        ),
        (
            {"gpu": "H100", "gpus_per_node": 8, "inter_node_bytes_per_s": 0},
            ("cluster", "inter_node_bytes_per_s"),
            "greater",
        ),
        (
            {"gpu": "H100", "gpus_per_node": 2, "pcie_switches": [[0, 2]]},
            ("cluster", "pcie_switches", 0, 1),
            "there is no GPU 2",
        ),
        (
            {"gpu": "H100", "gpus_per_node": 2, "pcie_switches": [[0], [1, 0]]},
            ("cluster", "pcie_switches", 1, 1),
            "already behind",
        ),
        (
            {
                "gpu": "H100",
                "gpus_per_node": 2,
                "pcie_switches": [[0]],
                "pcie_topology": "switch",
            },
            ("cluster", "pcie_topology"),
            "contradicts",
        ),
    ],
)
def test_errors_name_the_field(fields: Any, path: tuple[str | int, ...], says: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_cluster(fields)
    assert caught.value.path == path
    assert says in str(caught.value)
