"""How large checkpoints are, and what writing and loading them takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from planner.cost.blocks import training_state_bytes
from planner.cost.build import CostModel
from planner.cost.footprint import RankFootprint
from planner.cost.memory import ceil_div
from planner.cost.parameters import count_parameters
from planner.cost.training import Training
from planner.errors import SpecError
from planner.estimates.checkpoints.request import CheckpointsRequest
from planner.estimates.memory.estimate import optimizer_copies
from planner.estimates.ranks import rank_footprints

DEFAULT_NODE_BYTES_PER_S = 2e9


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a checkpoint: of the whole model, and the most that one GPU holds of it (the
    replicas of a GPU hold the same, unless ZeRO splits it)."""

    whole_bytes: int
    gpu_bytes: int
    loaded_bytes: int
    """What all GPUs together read to go on from it."""


@dataclass(frozen=True, slots=True)
class Written:
    """A kind of checkpoint: what it holds, where it goes and what that takes, in seconds."""

    contents: str
    stored_in: str
    sizes: Sizes
    bytes_per_s: float
    write_s: float
    blocking_s: float
    load_s: float
    restart_s: float

    @property
    def lag_s(self) -> float:
        """How long it is written while training goes on: until then the one before counts."""
        return self.write_s - self.blocking_s


def optimizer_bytes(training: Training) -> int:
    """Bytes per parameter that a checkpoint keeps of the optimizer: all fp32 copies but that of
    the gradient, which the next iteration makes anew."""
    return 4 * sum(copy != "copy of the gradient" for copy in optimizer_copies(training))


def checkpoint_sizes(costs: CostModel, request: CheckpointsRequest) -> dict[str, Sizes]:
    """Of a checkpoint of `parameters` alone and of the whole `state`."""
    training = costs.training
    each = training_state_bytes(training)
    total = count_parameters(costs.model).total
    ranks = rank_footprints(costs)
    kept = optimizer_bytes(training) / each.optimizer if each.optimizer else 0.0

    def parameters(rank: RankFootprint) -> int:
        return rank.parameters_bytes

    def state(rank: RankFootprint) -> int:
        return rank.parameters_bytes + round(kept * rank.optimizer_bytes)

    per_rank = training.degrees.gpus_per_rank
    found = {}
    for contents, computed, given, of_rank in (
        ("parameters", total * each.parameter, request.parameters_bytes, parameters),
        (
            "state",
            total * (each.parameter + optimizer_bytes(training)),
            request.state_bytes,
            state,
        ),
    ):
        # What was measured of the whole is spread over the GPUs as what was computed.
        scale = 1.0 if given is None else given / computed
        found[contents] = Sizes(
            whole_bytes=given or computed,
            gpu_bytes=round(scale * max(map(of_rank, ranks))),
            loaded_bytes=round(scale * per_rank * sum(map(of_rank, ranks))),
        )
    return found


def nodes_in_use(costs: CostModel) -> int:
    """Nodes with GPUs of the training."""
    return ceil_div(costs.training.degrees.gpus, costs.cluster.gpus_per_node)


def storage_rate(costs: CostModel, request: CheckpointsRequest) -> float:
    """Bytes per second that all nodes in use move to or from the shared storage together."""
    each = request.storage_bytes_per_s_per_node or DEFAULT_NODE_BYTES_PER_S
    nodes = nodes_in_use(costs) * each
    return min(nodes, request.storage_bytes_per_s or nodes)


def host_gpu_rate(costs: CostModel) -> float:
    """Bytes per second of one GPU to host memory while all GPUs of its node copy."""
    sharers = max(Counter(costs.cluster.switch_of).values())
    return costs.cluster.host_bytes_per_s / sharers


def node_bytes(costs: CostModel, sizes: Sizes) -> int:
    """The most that a node's GPUs hold of a checkpoint."""
    return _node_gpus(costs) * sizes.gpu_bytes


def _node_gpus(costs: CostModel) -> int:
    """GPUs of the training on a node, the most."""
    return min(costs.cluster.gpus_per_node, costs.training.degrees.gpus)


def fast_node_rate(costs: CostModel, request: CheckpointsRequest) -> float:
    """Bytes per second of one node to where it keeps its fast checkpoints.

    Raises `SpecError` where an SSD's rate is missing.
    """
    if request.fast_bytes_per_s_per_node is not None:
        return request.fast_bytes_per_s_per_node
    copied = _node_gpus(costs) * host_gpu_rate(costs)
    if request.fast_storage == "host_memory":
        return copied
    ssd = costs.cluster.host_tiers.ssd
    if ssd is None:
        raise SpecError(
            ("fast_bytes_per_s_per_node",),
            "is required: the cluster says nothing of its SSDs.",
            "Give it, or the cluster's `ssd_bytes_per_s` and `ssd_memory_bytes`.",
        )
    return min(copied, ssd.bytes_per_s)


def fast_checkpoint(costs: CostModel, request: CheckpointsRequest, sizes: Sizes) -> Written:
    """One that every node keeps of its own GPUs."""
    rate = fast_node_rate(costs, request)
    write_s = node_bytes(costs, sizes) / rate
    return Written(
        contents=request.fast_contents,
        stored_in=request.fast_storage,
        sizes=sizes,
        bytes_per_s=rate,
        write_s=write_s,
        blocking_s=request.fast_blocking_share * write_s,
        load_s=write_s,
        restart_s=request.detection_s + request.reschedule_s + write_s,
    )


def full_checkpoint(costs: CostModel, request: CheckpointsRequest, sizes: Sizes) -> Written:
    """One of the whole state in the shared storage, to which every node writes an equal part."""
    rate = storage_rate(costs, request)
    write_s = sizes.whole_bytes / rate
    load_s = sizes.loaded_bytes / rate if request.load_s is None else request.load_s
    return Written(
        contents="state",
        stored_in="storage",
        sizes=sizes,
        bytes_per_s=rate,
        write_s=write_s,
        blocking_s=request.blocking_share * write_s,
        load_s=load_s,
        restart_s=request.detection_s + request.reschedule_s + load_s,
    )
