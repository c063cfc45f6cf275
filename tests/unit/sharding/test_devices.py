"""Groups of devices however they are described, and what is assumed about them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.errors import SpecError
from planner.sharding.devices import (
    DeviceGroup,
    device_notes,
    group_to_document,
    read_devices,
    read_group,
)

DESCRIPTIONS: list[Any] = [
    1,
    7,
    12,
    4.0,
    {"count": 4},
    {"count": 4, "memory_bytes": 10**10},
    "8xA100-40GB",
    "4x8xH100",
    {"gpu": "L40S", "gpus_per_node": 4, "nodes": 2, "reserved_bytes": 0},
    {
        "gpu": {"preset": "H100", "watts": 500},
        "gpus_per_node": 4,
        "pcie_topology": "switch",
        "host_link_duplex": "half",
        "efficiency": {"network": 0.5},
    },
]


@pytest.mark.parametrize("raw", DESCRIPTIONS)
def test_a_group_comes_back_from_its_document(raw: Any) -> None:
    group = read_devices(raw)
    document = group_to_document(group)
    assert read_group(json.loads(json.dumps(document))) == group
    assert json.loads(json.dumps(document)) == document


def test_of_a_count_nodes_of_eight_are_assumed() -> None:
    small, large = read_devices(6), read_devices({"count": 20})
    assert (small.devices_per_node, small.cluster.nodes) == (6, 1)
    assert (large.devices_per_node, large.cluster.nodes) == (8, 3)
    assert small.memory_bytes is large.memory_bytes is None
    assert small.is_assumed
    assert [note["what"] for note in device_notes(small, 1)] == ["devices"]


def test_of_a_cluster_nothing_is_assumed_and_its_memory_is_the_limit() -> None:
    group = read_devices({"gpu": "A100-40GB", "gpus_per_node": 8, "reserved_bytes": 10**9})
    assert group.memory_bytes == group.cluster.gpu.memory_bytes - 10**9
    assert not group.is_assumed
    assert device_notes(group, 1) == ()


@pytest.mark.parametrize(
    ("raw", "path", "words"),
    [
        (0, "devices", "greater than or equal to 1"),
        (-4, "devices", "greater than or equal to 1"),
        (2**17 + 1, "devices", "less than or equal to 131072"),
        (2.5, "devices", "whole number"),
        (float("nan"), "devices", "whole number"),
        (True, "devices", "8xA100-40GB"),
        (None, "devices", "8xA100-40GB"),
        ([4], "devices", "8xA100-40GB"),
        ({}, "devices", "has neither `count` nor `gpu`. Give a count such as 4"),
        ("four", "devices", "8xA100-40GB"),
        ("8xA100-45GB", "devices", "A100-40GB"),
        ({"count": "4"}, "devices.count", "whole number"),
        ({"count": 4, "memory_bytes": 0}, "devices.memory_bytes", "greater than or equal to 1"),
        ({"count": 4, "gpu": "H100"}, "devices.gpu", "in place of `count`"),
        ({"count": 4, "colour": 1}, "devices.colour", "not a known field"),
        ({"gpu": "H100"}, "devices.gpus_per_node", "required"),
        (
            {"gpu": "L40S", "gpus_per_node": 1, "reserved_bytes": 10**12},
            "devices.reserved_bytes",
            "Lower",
        ),
    ],
)
def test_a_mistake_is_named(raw: Any, path: str, words: str) -> None:
    with pytest.raises(SpecError) as found:
        read_devices(raw)
    assert ".".join(map(str, found.value.path)) == path
    assert words in str(found.value)
    assert found.value.remedy


@pytest.mark.parametrize(
    ("raw", "stride", "degree", "inside"),
    [
        ("2x8xH100", 1, 8, True),
        ("2x8xH100", 1, 16, False),
        ("2x8xH100", 2, 4, True),
        ("2x8xH100", 8, 2, False),
        ("2x8xH100", 4, 4, False),
        (6, 1, 6, True),
        (6, 2, 3, True),
        (12, 1, 6, False),
        (12, 1, 4, True),
        (12, 6, 2, False),
    ],
)
def test_which_groups_of_devices_share_a_node(
    raw: Any, stride: int, degree: int, inside: bool
) -> None:
    group = read_devices(raw)
    assert group.is_in_node(stride, degree) is inside
    if inside:
        assert all_in_one_node(group, stride, degree)


def all_in_one_node(group: DeviceGroup, stride: int, degree: int) -> bool:
    """Device by device: whether every group of the role lies within one node."""
    node = [device // group.devices_per_node for device in range(group.count)]
    firsts = [d for d in range(group.count) if d // stride % degree == 0]
    return all(len({node[d + stride * k] for k in range(degree)}) == 1 for d in firsts)


def test_the_network_is_slower_than_a_node_but_never_faster() -> None:
    assert read_devices("2x8xH100").network_factor > 1
    fast = {"gpu": "L40S", "gpus_per_node": 2, "nodes": 2, "inter_node_bytes_per_s": 1e15}
    assert read_devices(fast).network_factor == 1


@pytest.mark.parametrize(
    ("raw", "stages", "is_noted"),
    [("3x8xH100", 2, True), ("2x8xH100", 2, False), ("2x8xH100", 4, False), (6, 2, False)],
)
def test_stages_that_straddle_nodes_are_noted(raw: Any, stages: int, is_noted: bool) -> None:
    notes = device_notes(read_devices(raw), stages)
    assert ("stages and nodes" in [note["what"] for note in notes]) is is_noted
