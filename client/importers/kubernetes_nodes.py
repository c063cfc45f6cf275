"""From `kubectl get nodes -o json` to a request's `cluster`.

Labels are those of NVIDIA's GPU feature discovery (`nvidia.com/gpu.product`, `.count`, `.memory` in
MiB), and `topology.kubernetes.io/zone`. Which label says a node's rack differs by site.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from client.errors import InputError
from client.importers.imported import Imported
from client.importers.racks import racks_of

PRODUCT, COUNT, MEMORY = (f"nvidia.com/gpu.{name}" for name in ("product", "count", "memory"))
ZONE = "topology.kubernetes.io/zone"
RESOURCE = "nvidia.com/gpu"
MIB = 2**20
PRESETS: Mapping[str, str] = {
    "V100-SXM2-32GB": "V100-32GB",
    "A100-SXM4-40GB": "A100-40GB",
    "A100-SXM4-80GB": "A100-80GB",
    "H100-80GB-HBM3": "H100-80GB",
    "H200": "H200-141GB",
    "B200": "B200-180GB",
    "L40S": "L40S-48GB",
}
"""Names of GPUs in requests, by product without its maker."""
SHARED = re.compile(r"MIG|-SHARED$")
QUANTITY = re.compile(r"(\d+)(Ki|Mi|Gi|Ti|k|M|G|T)?")
UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


@dataclass(frozen=True)
class _Gpus:
    """What a node has; equal nodes are equal here. `memory_mib` is of one GPU."""

    product: str
    count: int
    memory_mib: int | None


@dataclass(frozen=True)
class _Node:
    name: str
    labels: Mapping[str, str]
    gpus: _Gpus
    host_bytes: int | None


def from_kubernetes_nodes(document: Mapping[str, Any], rack_label: str | None = None) -> Imported:
    """The cluster of the most numerous equal nodes with GPUs. `rack_label` is the label of nodes
    that says behind which switch they are.

    Raises `InputError` where no node has GPUs, or one lacks that label.
    """
    notes: list[str] = []
    nodes = _usable(document, notes)
    if not nodes:
        raise InputError(
            "FILE",
            f"has no schedulable node with the label {PRODUCT} and whole GPUs.",
            "Give the output of `kubectl get nodes -o json` of a cluster with GPU feature "
            "discovery.",
        )
    kinds = Counter(node.gpus for node in nodes)
    gpus = kinds.most_common(1)[0][0]
    notes += (
        f"{count} nodes with {other.count} x {other.product} are left out: a request has equal "
        "nodes."
        for other, count in kinds.items()
        if other != gpus
    )
    chosen = [node for node in nodes if node.gpus == gpus]
    cluster = {
        "gpu": _gpu(gpus, notes),
        **_racks(chosen, rack_label, notes),
        "gpus_per_node": gpus.count,
        **_host_memory(chosen, notes),
    }
    return Imported({"cluster": cluster}, notes)


def _usable(document: Mapping[str, Any], notes: list[str]) -> list[_Node]:
    items = document.get("items")
    if not isinstance(items, list):
        raise InputError("FILE", "has no list `items`.", "Give `kubectl get nodes -o json`.")
    nodes = [node for item in items if (node := _node(item)) is not None]
    whole = [node for node in nodes if not SHARED.search(node.gpus.product)]
    if len(whole) < len(nodes):
        notes.append(f"{len(nodes) - len(whole)} nodes with divided or shared GPUs are left out.")
    cordoned = {
        _at(item, "metadata", "name") for item in items if _at(item, "spec", "unschedulable")
    }
    usable = [node for node in whole if node.name not in cordoned]
    if len(usable) < len(whole):
        notes.append(f"{len(whole) - len(usable)} nodes that are cordoned are left out.")
    return usable


def _node(item: Any) -> _Node | None:
    """None without GPUs."""
    labels = _at(item, "metadata", "labels") or {}
    product = labels.get(PRODUCT)
    count = labels.get(COUNT) or _at(item, "status", "capacity", RESOURCE)
    if product is None or not str(count).isdecimal() or int(count) < 1:
        return None
    memory = str(labels.get(MEMORY, ""))
    return _Node(
        name=str(_at(item, "metadata", "name")),
        labels=labels,
        gpus=_Gpus(product, int(count), int(memory) if memory.isdecimal() else None),
        host_bytes=_bytes(_at(item, "status", "allocatable", "memory")),
    )


def _at(item: Any, *path: str) -> Any:
    for name in path:
        item = item.get(name) if isinstance(item, Mapping) else None
    return item


def _bytes(quantity: Any) -> int | None:
    match = QUANTITY.fullmatch(str(quantity))
    return None if match is None else int(match[1]) * UNITS[match[2] or ""]


def _gpu(gpus: _Gpus, notes: list[str]) -> str | dict[str, Any]:
    preset = PRESETS.get(re.sub(r"^(NVIDIA|Tesla)-", "", gpus.product))
    if preset is not None:
        return preset
    notes.append(
        f"{gpus.product} is no GPU that requests may name (GET /v1/presets): add its rates to "
        "`cluster.gpu`."
    )
    known = {} if gpus.memory_mib is None else {"memory_bytes": gpus.memory_mib * MIB}
    return {"name": gpus.product, **known}


def _racks(nodes: Sequence[_Node], label: str | None, notes: list[str]) -> dict[str, Any]:
    if label is None:
        zones = {node.labels.get(ZONE) for node in nodes}
        if len(zones) > 1:
            notes.append(
                f"Nodes lie in {len(zones)} zones ({ZONE}). Name the label of racks with "
                f"--rack-label, or that one, if what connects them is slower."
            )
        return {"nodes": len(nodes)}
    for node in nodes:
        if label not in node.labels:
            raise InputError(
                "--rack-label", f"node {node.name} has no label {label}.", "Name one that all have."
            )
    return racks_of([*Counter(node.labels[label] for node in nodes).values()], notes)


def _host_memory(nodes: Sequence[_Node], notes: list[str]) -> dict[str, int]:
    sizes = [node.host_bytes for node in nodes if node.host_bytes is not None]
    if len(sizes) < len(nodes):
        return {}
    notes.append(
        "`cluster.host_memory_bytes` is all that pods may use of the smallest node: lower it by "
        "what the training program needs besides offloaded activations."
    )
    return {"host_memory_bytes": min(sizes)}
