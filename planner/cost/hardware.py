"""The cluster document: GPUs, nodes, host links and efficiencies, read into a `Cluster`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import floor
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from planner.cost.calibrated import Calibration, Margin, factor_note
from planner.cost.hardware_presets import GPU_ALIASES, GPU_PRESETS
from planner.cost.note import Note
from planner.cost.offload.host_tiers import (
    HostTiers,
    HostTiersDocument,
    Rate,
    Share,
    read_host_tiers,
)
from planner.cost.presets import find_preset
from planner.documents import Document, PositiveWhole, WholeNumber, spec_error_from
from planner.errors import SpecError
from planner.pipeline.problem import Duplex
from planner.sizes import GIB

Path = tuple[str | int, ...]

DEFAULT_RESERVED_BYTES = 2 * GIB
DEFAULT_NETWORK_BYTES_PER_S = 25e9
LARGEST_GPUS = 2**17
NAMELESS_GPU = "own GPU"


class GpuDocument(Document):
    """One GPU; a `preset` gives the fields that are left out. Rates are per direction."""

    preset: str | None = None
    name: str | None = None
    memory_bytes: PositiveWhole | None = None
    bf16_flop_per_s: Rate | None = Field(default=None, description="Dense peak; absent = no bf16.")
    fp16_flop_per_s: Rate | None = Field(default=None, description="Dense peak; absent = no fp16.")
    fp32_flop_per_s: Rate | None = None
    hbm_bytes_per_s: Rate | None = None
    nvlink_bytes_per_s: Rate | None = Field(
        default=None, description="Absent = none: neighbours in a node talk over PCIe."
    )
    pcie_bytes_per_s: Rate | None = None
    network_bytes_per_s: Rate | None = Field(
        default=None, description="This GPU's share of the network between nodes; default 25e9."
    )
    gpus_per_pcie_switch: PositiveWhole | None = Field(
        default=None, description="Neighbouring GPUs that share one path to the host; default 1."
    )
    watts: Rate | None = Field(
        default=None, description="Power at full load, for estimates of energy."
    )


class EfficiencyDocument(Document):
    """Shares of the peak rates that programs reach.

    The defaults were fitted once, together, to measurements on A100s: whole iterations of four
    models (Korthikanti et al. 2022, table 5), forward and backward passes of four (Qi et al. 2024,
    profiles of the zero-bubble experiments) and all-reduces of 1 GiB (vTrain).
    """

    compute: Share = Field(default=0.74, description="Of the dense peak, by matrix products.")
    hbm: Share = Field(default=0.7, description="Of device memory, by element-wise operators.")
    pcie: Share = 0.8
    nvlink: Share = 0.93
    network: Share = 0.8


def _named_gpu(value: Any) -> Any:
    return {"preset": value} if isinstance(value, str) else value


class ClusterDocument(HostTiersDocument):
    """Equal nodes of equal GPUs."""

    gpu: Annotated[
        GpuDocument, BeforeValidator(_named_gpu, json_schema_input_type=GpuDocument | str)
    ]
    nodes: Annotated[PositiveWhole, Field(le=2**17)] = 1
    gpus_per_node: Annotated[PositiveWhole, Field(le=1024)]
    gpu_memory_bytes: PositiveWhole | None = Field(
        default=None, description="Instead of the GPU's own memory size."
    )
    pcie_switches: list[list[WholeNumber]] | None = Field(
        default=None,
        description="Groups of GPUs of a node (from 0) that share a path to the host; a GPU in "
        "none has its own.",
    )
    pcie_topology: Literal["full_mesh", "switch"] | None = Field(
        default=None,
        description="full_mesh: each GPU has its own path to the host; switch: neighbouring "
        "pairs share one. Default: as the GPU's usual machine.",
    )
    host_link_duplex: Literal["full", "half"] = "full"
    host_memory_bytes: PositiveWhole | None = Field(
        default=None,
        description="Host memory per node for offloaded activations; absent = no limit.",
    )
    inter_node_bytes_per_s: Rate | None = Field(
        default=None, description="Per GPU and direction, instead of the GPU preset's."
    )
    nodes_per_rack: Annotated[PositiveWhole, Field(le=2**17)] | None = Field(
        default=None, description="Neighbouring nodes behind one switch; absent = all of them."
    )
    inter_rack_bytes_per_s: Rate | None = Field(
        default=None, description="Per GPU and direction; default: as between nodes."
    )
    link_latency_ns: WholeNumber = Field(
        default=6_000, description="Inside a node, per step of a collective."
    )
    network_latency_ns: WholeNumber = Field(
        default=20_000, description="Between nodes, per step of a collective."
    )
    reserved_bytes: WholeNumber = Field(
        default=DEFAULT_RESERVED_BYTES,
        description="Of each GPU, for the CUDA context, NCCL buffers and fragmentation.",
    )
    memory_margin: Margin | None = Field(
        default=None,
        description="Measured peak memory over the predicted one: what this adds to the formulas "
        "is reserved as well; default 1.",
    )
    efficiency: EfficiencyDocument = EfficiencyDocument()
    calibration: Calibration | None = Field(
        default=None,
        description="`latest`, or the number of a version, of this kind of GPU's calibration: it "
        "stands for what `efficiency` and `memory_margin` do not give.",
    )


@dataclass(frozen=True, slots=True)
class Gpu:
    """Peak rates of one GPU; None where it lacks the unit."""

    name: str
    memory_bytes: int
    bf16_flop_per_s: float | None
    fp16_flop_per_s: float | None
    fp32_flop_per_s: float | None
    hbm_bytes_per_s: float
    nvlink_bytes_per_s: float | None
    pcie_bytes_per_s: float
    network_bytes_per_s: float
    gpus_per_pcie_switch: int
    watts: float | None = None
    source: str | None = None

    def peak_flop_per_s(self, precision: str) -> float | None:
        """Dense peak of `bf16`, `fp16` or `fp32`."""
        peaks = {
            "bf16": self.bf16_flop_per_s,
            "fp16": self.fp16_flop_per_s,
            "fp32": self.fp32_flop_per_s,
        }
        return peaks[precision]


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Shares of the peak rates that programs reach, each in (0, 1]."""

    compute: float
    hbm: float
    pcie: float
    nvlink: float
    network: float


@dataclass(frozen=True, slots=True)
class Cluster:
    """Equal nodes. `switch_of` numbers the path to the host of each GPU of a node;
    `inter_rack_bytes_per_s` is the peak of one GPU's way to another rack. `reserved_bytes` has what
    a memory margin adds, and `factors` says where `efficiency` is from."""

    gpu: Gpu
    nodes: int
    gpus_per_node: int
    memory_bytes: int
    switch_of: tuple[int, ...]
    host_link_duplex: Duplex
    host_memory_bytes: int | None
    host_tiers: HostTiers
    nodes_per_rack: int
    inter_rack_bytes_per_s: float
    link_latency_ns: int
    network_latency_ns: int
    reserved_bytes: int
    efficiency: Efficiency
    factors: Note = field(default_factory=lambda: factor_note(None, ()), compare=False)

    @property
    def gpus(self) -> int:
        """All GPUs of the cluster."""
        return self.nodes * self.gpus_per_node

    @property
    def link_bytes_per_s(self) -> float:
        """What one GPU sends to another of its node: NVLink, or PCIe without it."""
        if self.gpu.nvlink_bytes_per_s is None:
            return self.host_bytes_per_s
        return self.gpu.nvlink_bytes_per_s * self.efficiency.nvlink

    @property
    def network_bytes_per_s(self) -> float:
        """What one GPU sends to another node."""
        return self.gpu.network_bytes_per_s * self.efficiency.network

    @property
    def rack_bytes_per_s(self) -> float:
        """What one GPU sends to another rack."""
        return self.inter_rack_bytes_per_s * self.efficiency.network

    @property
    def hbm_bytes_per_s(self) -> float:
        """What element-wise operators move through a GPU's memory."""
        return self.gpu.hbm_bytes_per_s * self.efficiency.hbm

    @property
    def gpus_per_rack(self) -> int:
        """GPUs behind one switch of the network."""
        return self.nodes_per_rack * self.gpus_per_node

    @property
    def host_bytes_per_s(self) -> float:
        """What one path to the host carries in one direction."""
        return self.gpu.pcie_bytes_per_s * self.efficiency.pcie


def read_cluster(raw: Mapping[str, Any] | str, path: Path = ("cluster",)) -> Cluster:
    """Read a cluster document, or a text such as ``"8xA100-40GB"`` or ``"4x8xH100"``
    (nodes x GPUs per node x GPU). Raises `SpecError` that names the first field at fault."""
    if not isinstance(raw, (str, Mapping)):
        raise SpecError(
            path, "must be a text or an object.", 'Such as "8xA100-40GB" or "4x8xH100".'
        )
    fields = _from_text(raw, path) if isinstance(raw, str) else raw
    try:
        document = ClusterDocument.model_validate(fields)
    except ValidationError as error:
        raise spec_error_from(error, path) from error
    if document.nodes * document.gpus_per_node > LARGEST_GPUS:
        raise SpecError(
            (*path, "nodes"),
            f"gives {document.nodes * document.gpus_per_node} GPUs; at most {LARGEST_GPUS}.",
            "Give fewer nodes.",
        )
    gpu = _gpu(document, path if isinstance(raw, str) else (*path, "gpu"))
    memory_bytes = document.gpu_memory_bytes or gpu.memory_bytes
    _check_calibration(document, gpu, path)
    return Cluster(
        gpu=gpu,
        nodes=document.nodes,
        gpus_per_node=document.gpus_per_node,
        memory_bytes=memory_bytes,
        switch_of=_switches(document, gpu, path),
        host_link_duplex=Duplex(document.host_link_duplex),
        host_memory_bytes=document.host_memory_bytes,
        host_tiers=read_host_tiers(document, document.gpus_per_node, path),
        nodes_per_rack=min(document.nodes_per_rack or document.nodes, document.nodes),
        inter_rack_bytes_per_s=document.inter_rack_bytes_per_s or gpu.network_bytes_per_s,
        link_latency_ns=document.link_latency_ns,
        network_latency_ns=document.network_latency_ns,
        reserved_bytes=_reserved_bytes(document, memory_bytes),
        efficiency=_efficiency(document),
        factors=factor_note(document.calibration, tuple(_given_factors(document))),
    )


def _check_calibration(document: ClusterDocument, gpu: Gpu, path: Path) -> None:
    calibration = document.calibration
    if calibration is not None and calibration.gpu != gpu.name:
        raise SpecError(
            (*path, "calibration"),
            f"is of {calibration.gpu[:80]}, and the cluster's GPUs are {gpu.name[:80]}.",
            "Name a version of this kind of GPU.",
        )


def _given_factors(document: ClusterDocument) -> dict[str, float]:
    return document.efficiency.model_dump(exclude_unset=True)


def _efficiency(document: ClusterDocument) -> Efficiency:
    """What the body gives, else what was fitted, else the built-in factors."""
    calibration = document.calibration
    fitted = {} if calibration is None else calibration.efficiency.model_dump(exclude_none=True)
    return Efficiency(**EfficiencyDocument().model_dump() | fitted | _given_factors(document))


def _reserved_bytes(document: ClusterDocument, memory_bytes: int) -> int:
    """With a margin m, plans fit whose memory times m, and the given reserve, fits."""
    reserved, margin = document.reserved_bytes, document.memory_margin
    if margin is None and document.calibration is not None:
        margin = document.calibration.memory_margin
    if margin is None or reserved >= memory_bytes:
        return reserved
    return memory_bytes - floor((memory_bytes - reserved) / margin)


def gpu_named(name: str) -> str:
    """The name that a GPU has in a cluster which names it like this: its preset's, if there is one,
    however it is spelled."""
    try:
        return find_preset(name, GPU_PRESETS, GPU_ALIASES, (), "GPU").name
    except SpecError:
        return name


def _from_text(text: str, path: Path) -> dict[str, Any]:
    match = re.fullmatch(r"(?:(\d{1,6})\s*x\s*)?(\d{1,6})\s*x\s*(\S.*)", text.strip())
    if match is None:
        raise SpecError(
            path,
            f"{text[:80]!r} is not a cluster.",
            "Write GPUs x name (8xA100-40GB), nodes x GPUs x name (4x8xH100), or an object.",
        )
    nodes, gpus, gpu = match.groups()
    return {"nodes": int(nodes or 1), "gpus_per_node": int(gpus), "gpu": gpu}


def _gpu(document: ClusterDocument, path: Path) -> Gpu:
    given = document.gpu.model_dump(exclude_none=True, exclude={"preset", "name"})
    name, source = document.gpu.name or NAMELESS_GPU, None
    if document.gpu.preset is not None:
        preset = find_preset(document.gpu.preset, GPU_PRESETS, GPU_ALIASES, path, "GPU")
        name, source = document.gpu.name or preset.name, preset.source
        given = dict(preset.fields) | given
    for required in ("memory_bytes", "hbm_bytes_per_s", "pcie_bytes_per_s"):
        if required not in given:
            raise SpecError((*path, required), "is required.", "Give it, or name a `preset`.")
    network = document.inter_node_bytes_per_s or given.get("network_bytes_per_s")
    return Gpu(
        name=name,
        memory_bytes=given["memory_bytes"],
        bf16_flop_per_s=given.get("bf16_flop_per_s"),
        fp16_flop_per_s=given.get("fp16_flop_per_s"),
        fp32_flop_per_s=given.get("fp32_flop_per_s"),
        hbm_bytes_per_s=given["hbm_bytes_per_s"],
        nvlink_bytes_per_s=given.get("nvlink_bytes_per_s"),
        pcie_bytes_per_s=given["pcie_bytes_per_s"],
        network_bytes_per_s=network or DEFAULT_NETWORK_BYTES_PER_S,
        gpus_per_pcie_switch=given.get("gpus_per_pcie_switch", 1),
        watts=given.get("watts"),
        source=source,
    )


def _switches(document: ClusterDocument, gpu: Gpu, path: Path) -> tuple[int, ...]:
    count = document.gpus_per_node
    if document.pcie_switches is None:
        shared = {"full_mesh": 1, "switch": 2, None: gpu.gpus_per_pcie_switch}
        per_switch = shared[document.pcie_topology]
        return tuple(index // per_switch for index in range(count))
    if document.pcie_topology is not None:
        raise SpecError(
            (*path, "pcie_topology"),
            "contradicts `pcie_switches`.",
            "Give one of the two.",
        )
    switch_of: dict[int, int] = {}
    for number, group in enumerate(document.pcie_switches):
        for place, index in enumerate(group):
            where = (*path, "pcie_switches", number, place)
            if index >= count:
                raise SpecError(where, f"there is no GPU {index}.", f"A node has {count}, from 0.")
            if index in switch_of:
                raise SpecError(
                    where, f"GPU {index} is already behind a switch.", "Name each GPU once."
                )
            switch_of[index] = number
    own = len(document.pcie_switches)
    return tuple(switch_of.get(index, own + index) for index in range(count))
