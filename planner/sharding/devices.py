"""The group of devices that shares the work: how many, how they are wired, what they can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import Field, ValidationError

from planner.cost.hardware import (
    LARGEST_GPUS,
    Cluster,
    ClusterDocument,
    Efficiency,
    Gpu,
    read_cluster,
)
from planner.cost.notes import Note
from planner.cost.offload.host_tiers import HostTiers
from planner.documents import Document, PositiveWhole, spec_error_from
from planner.errors import SpecError
from planner.pipeline.problem import Duplex

Path = tuple[str | int, ...]

ASSUMED_GPU = "A100-80GB"
ASSUMED_DEVICES_PER_NODE = 8
WAYS_TO_SAY = (
    "Give a count such as 4, a group such as 8xA100-40GB, or an object with `count`, or with `gpu` "
    "and `gpus_per_node`."
)


class CountDocument(Document):
    """A number of devices of which nothing else is known."""

    count: Annotated[PositiveWhole, Field(le=LARGEST_GPUS)]
    memory_bytes: PositiveWhole | None = None


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """`count` devices, numbered node by node. `memory_bytes` is what a plan may occupy on one of
    them (None = no limit); `is_assumed` says that only their number was given."""

    count: int
    memory_bytes: int | None
    cluster: Cluster
    is_assumed: bool

    @property
    def devices_per_node(self) -> int:
        """Neighbouring devices that the faster links connect."""
        return self.cluster.gpus_per_node

    @property
    def network_factor(self) -> float:
        """How much longer a byte takes between nodes than within one; at least 1."""
        return max(1.0, self.cluster.link_bytes_per_s / self.cluster.network_bytes_per_s)

    def is_in_node(self, stride: int, degree: int) -> bool:
        """Whether each group of `degree` devices, `stride` apart, lies within one node."""
        span = stride * degree
        return self.count <= self.devices_per_node or self.devices_per_node % span == 0


def read_devices(raw: Any, path: Path = ("devices",)) -> DeviceGroup:
    """Read a count, a text such as ``"8xA100-40GB"``, or the fields of either document.

    Of a bare count an A100 machine is assumed, which only predicted times depend on. Raises
    `SpecError` that names the first field at fault, below `path`.
    """
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str, Mapping)):
        raise SpecError(path, "is neither a number, a text nor an object.", WAYS_TO_SAY)
    if isinstance(raw, Mapping) and not {"count", "gpu"} & set(raw):
        raise SpecError(path, "has neither `count` nor `gpu`.", WAYS_TO_SAY)
    if isinstance(raw, (int, float)):
        return _counted({"count": raw}, path, shown_as=path)
    if isinstance(raw, Mapping) and "count" in raw:
        return _counted(raw, path, shown_as=(*path, "count"))
    cluster = read_cluster(raw, path)
    limit = cluster.memory_bytes - cluster.reserved_bytes
    if limit <= 0:
        where = path if isinstance(raw, str) else (*path, "reserved_bytes")
        raise SpecError(where, "leaves no memory on the devices.", "Lower `reserved_bytes`.")
    return DeviceGroup(cluster.gpus, limit, cluster, is_assumed=False)


def _counted(raw: Mapping[str, Any], path: Path, shown_as: Path) -> DeviceGroup:
    try:
        document = CountDocument.model_validate(raw)
    except ValidationError as error:
        problem = spec_error_from(error, path)
        if problem.path[-1] in ClusterDocument.model_fields:
            raise SpecError(
                problem.path,
                "cannot be given beside `count`.",
                "Give `nodes` and `gpus_per_node` in place of `count`.",
            ) from error
        if problem.path == (*path, "count"):
            raise SpecError(shown_as, problem.message, problem.remedy) from error
        raise problem from error
    per_node = min(document.count, ASSUMED_DEVICES_PER_NODE)
    nodes = -(-document.count // per_node)
    fields = {"gpu": ASSUMED_GPU, "nodes": nodes, "gpus_per_node": per_node}
    cluster = read_cluster(fields, path)
    return DeviceGroup(document.count, document.memory_bytes, cluster, is_assumed=True)


def device_notes(group: DeviceGroup, stages: int) -> tuple[Note, ...]:
    """What is assumed about the devices: one note per assumption."""
    notes: list[Note] = []
    per_node = group.devices_per_node
    if group.is_assumed:
        notes.append(
            {
                "what": "devices",
                "value": f"{ASSUMED_GPU}, {per_node} per node",
                "basis": "Only their number was given.",
            }
        )
    own = group.count // stages
    if stages > 1 and group.count > per_node and own % per_node and per_node % own:
        notes.append(
            {
                "what": "stages and nodes",
                "value": "each stage begins with the first device of a node",
                "basis": f"{own} devices per stage neither fill nodes of {per_node} nor share one.",
            }
        )
    return tuple(notes)


def group_to_document(group: DeviceGroup) -> dict[str, Any]:
    """The group as JSON, however it was described, from which `read_group` makes it again."""
    document = asdict(group)
    del document["cluster"]["factors"]
    document["cluster"]["switch_of"] = list(group.cluster.switch_of)
    document["cluster"]["host_tiers"]["socket_of"] = list(group.cluster.host_tiers.socket_of)
    document["cluster"]["host_link_duplex"] = group.cluster.host_link_duplex.value
    return document


def read_group(document: Mapping[str, Any]) -> DeviceGroup:
    """The group that `group_to_document` wrote."""
    cluster = document["cluster"]
    return DeviceGroup(
        count=document["count"],
        memory_bytes=document["memory_bytes"],
        cluster=Cluster(
            **{
                **cluster,
                "gpu": Gpu(**cluster["gpu"]),
                "switch_of": tuple(cluster["switch_of"]),
                "host_link_duplex": Duplex(cluster["host_link_duplex"]),
                "host_tiers": HostTiers.from_document(cluster["host_tiers"]),
                "efficiency": Efficiency(**cluster["efficiency"]),
            }
        ),
        is_assumed=document["is_assumed"],
    )
