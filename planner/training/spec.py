"""The canonical spec of a search for a training plan, and the hashes that identify it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from planner.cost.calibrated import calibration_of
from planner.cost.hardware import Cluster
from planner.cost.model import Model
from planner.cost.training import Recomputation
from planner.documents import canonical_hash
from planner.training.experts.routing import Routing
from planner.training.options import SolveOptions

KIND = "training"


@dataclass(frozen=True, slots=True)
class Choices:
    """What each field of the training may be; None = whatever suits model and cluster."""

    tensor_parallel: tuple[int, ...] | None
    pipeline_parallel: tuple[int, ...] | None
    data_parallel: tuple[int, ...] | None
    context_parallel: tuple[int, ...] | None
    expert_parallel: tuple[int, ...] | None
    micro_batch_size: tuple[int, ...] | None
    interleaving: tuple[int, ...] | None
    zero_stage: tuple[int, ...]
    recomputation: tuple[Recomputation, ...]
    offload: tuple[bool, ...]


@dataclass(frozen=True)
class TrainingSpec:
    """Everything that a worker needs to search.

    `cluster` has the memory that `memory_headroom` leaves. `fixed` are the fields of the training
    document that are not searched, as given. `devices` are the numbers of GPUs to consider, most
    first. `request` is the request as posted, without labels, which `read_spec` of
    `planner.training.request` makes a spec of again.
    """

    model: Model
    cluster: Cluster
    global_batch_size: int
    fixed: Mapping[str, Any]
    choices: Choices
    devices: tuple[int, ...]
    pareto: bool
    top: int
    finalists: int
    memory_headroom: float
    routing: Routing | None
    options: SolveOptions
    request: Mapping[str, Any]

    def to_document(self) -> dict[str, Any]:
        """The spec as JSON."""
        return {
            "kind": KIND,
            "request": dict(self.request),
            "options": self.options.to_document(),
        }

    def hash(self) -> str:
        """SHA-256 over what decides the answer; the engine is kept apart, since a request that
        names none may be answered by any engine's result."""
        options = self.options.to_document()
        del options["engine"]
        return canonical_hash({**self._identity(), "options": options})

    def problem_hash(self) -> str:
        """SHA-256 over what is searched, whatever the time limit, threads and the like."""
        return canonical_hash(self._identity())

    @property
    def cluster_fields(self) -> dict[str, Any]:
        """The cluster document, as an object, with the memory that is to be planned with."""
        posted = self.request["cluster"]
        if isinstance(posted, str):
            cluster = self.cluster
            posted = {
                "gpu": cluster.gpu.name,
                "nodes": cluster.nodes,
                "gpus_per_node": cluster.gpus_per_node,
            }
        if not self.memory_headroom:
            return dict(posted)
        fields = {**posted, "gpu_memory_bytes": self.cluster.memory_bytes}
        if {"memory_margin", "calibration"} & posted.keys():
            # The margin is in the reserve already, as a share of all memory.
            fields |= {"reserved_bytes": self.cluster.reserved_bytes, "memory_margin": 1.0}
        return fields

    def _identity(self) -> dict[str, Any]:
        """Presets and the same sizes written out are equal; names do not count."""
        model, cluster = asdict(self.model), asdict(self.cluster)
        for named in (model, cluster["gpu"]):
            del named["name"], named["source"]
        del cluster["factors"]
        calibration = calibration_of(self.request["cluster"])
        routing = self.routing
        return {
            "kind": KIND,
            "model": model,
            "cluster": cluster,
            "global_batch_size": self.global_batch_size,
            "fixed": dict(self.fixed),
            "choices": asdict(self.choices),
            "devices": list(self.devices),
            "pareto": self.pareto,
            "top": self.top,
            "finalists": self.finalists,
            "memory_headroom": self.memory_headroom,
            "routing": None if routing is None else routing.whole_weights,
            **({} if calibration is None else {"calibration": calibration}),
        }
