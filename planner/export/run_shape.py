"""What a run of a plan looks like: degrees, batch, layers, nodes, and what its schedule does.

Frameworks and cluster schedulers are told the same things of a plan in different words. Here they
are read once, from a training plan or from a pipeline schedule, with every default resolved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from planner.cost.build import CostModel
from planner.cost.hardware import Cluster
from planner.cost.model import Model
from planner.cost.placement import Placement, interleaved
from planner.cost.spec import read_cost_model
from planner.cost.training import Training
from planner.errors import SpecError
from planner.export.format import Document, Source

MEASURED = (
    "The plan is of a measured problem, which does not say the model, the GPUs or the batch: post "
    "`model`, `cluster` and `training` (what was measured goes into `training.profile`), and "
    "export that plan."
)
NOT_KEPT = "The request of this plan was not kept: post it again, and export that plan."
READ_OTHERWISE = (
    "This version reads the request of this plan differently: post it again, and export that plan."
)
PARTIAL_NODE = (
    "The plan uses {gpus} GPUs of nodes with {per_node}: ask for a plan on a number that fills "
    "its nodes."
)


class Arrangement(StrEnum):
    """How stages lie on devices: one each; so many rounds over all devices; there and back; or
    neighbouring stages together. `OTHER` is anything else."""

    ONE_CHUNK = "one_chunk"
    LOOPED = "looped"
    V_SHAPE = "v_shape"
    CONTIGUOUS = "contiguous"
    OTHER = "other"


@dataclass(frozen=True)
class Run:
    """What was asked for, with all defaults resolved: how the model is trained on the cluster."""

    costs: CostModel
    placement: Placement

    @property
    def model(self) -> Model:
        """The transformer's sizes."""
        return self.costs.model

    @property
    def cluster(self) -> Cluster:
        """All nodes, those that the run leaves idle too."""
        return self.costs.cluster

    @property
    def training(self) -> Training:
        """Degrees, batch, precision and memory savers."""
        return self.costs.training

    @cached_property
    def layers_per_stage(self) -> tuple[int, ...]:
        """Transformer layers of each stage, in the order of the model."""
        return self.costs.layers_per_stage(self.placement)

    @property
    def gpus(self) -> int:
        """GPUs in use."""
        return self.training.degrees.gpus

    @property
    def nodes(self) -> int:
        """Nodes in use."""
        return -(-self.gpus // self.cluster.gpus_per_node)

    @property
    def gpus_per_node(self) -> int:
        """GPUs in use of each node, if the run fills its nodes."""
        return min(self.gpus, self.cluster.gpus_per_node)

    @property
    def partial_node(self) -> str | None:
        """Why launchers that start equally many processes per node cannot start the run; None if
        they can."""
        if self.gpus == self.nodes * self.gpus_per_node:
            return None
        return PARTIAL_NODE.format(gpus=self.gpus, per_node=self.cluster.gpus_per_node)


@dataclass(frozen=True)
class RunShape:
    """`device_of_stage[s]` is the pipeline rank of stage s. `schedule` has the answer's operations,
    None where none was solved; `planned_share` is then what a training plan says of how much its
    ranks offload. `run` is None where the plan does not say it; `undescribed` then says why, and
    what to do instead."""

    micro_batches: int
    device_of_stage: tuple[int, ...]
    schedule: Document | None
    run: Run | None
    undescribed: str | None
    planned_share: float = 0.0

    @property
    def pipeline_parallel(self) -> int:
        """Pipeline ranks."""
        return max(self.device_of_stage) + 1

    @property
    def stages_per_device(self) -> tuple[int, ...]:
        """How many stages each pipeline rank has."""
        return tuple(self.device_of_stage.count(rank) for rank in range(self.pipeline_parallel))

    @property
    def interleaving(self) -> int | None:
        """Stages per device, None where devices differ in it."""
        counts = set(self.stages_per_device)
        return counts.pop() if len(counts) == 1 else None

    @property
    def arrangement(self) -> Arrangement:
        """How the stages lie on the devices."""
        order, there = self.device_of_stage, tuple(range(self.pipeline_parallel))
        if order == there:
            return Arrangement.ONE_CHUNK
        if order == there + there[::-1]:
            return Arrangement.V_SHAPE
        if order == tuple(sorted(order)):
            return Arrangement.CONTIGUOUS
        if order == there * (len(order) // len(there)):
            return Arrangement.LOOPED
        return Arrangement.OTHER

    @property
    def has_offloads(self) -> bool:
        """Whether activations are moved to host memory and back."""
        return self.offload_share > 0

    @cached_property
    def offload_share(self) -> float:
        """Which share of its stages' micro-batches the rank offloads that offloads most, from 0 to
        1."""
        if self.schedule is None:
            return self.planned_share
        moved = Counter(
            self.device_of_stage[op["stage"]] for op in self.schedule["ops"] if op["op"] == "O"
        )
        return max(
            moved[rank] / (stages * self.micro_batches)
            for rank, stages in enumerate(self.stages_per_device)
        )

    @cached_property
    def has_split_backward(self) -> bool:
        """Whether the schedule has weight gradients as operations of their own."""
        return self.schedule is not None and any(op["op"] == "W" for op in self.schedule["ops"])


def run_shape(source: Source) -> RunShape:
    """Of the best plan of a training plan, or of a pipeline schedule. The answer must have one."""

    def read() -> RunShape:
        if source.kind == "training":
            return _of_training(source.answer)
        return _of_pipeline(source)

    return source.once("run shape", read)


def _of_pipeline(source: Source) -> RunShape:
    problem = source.answer["problem"]
    devices = _devices_of(problem)
    run, why_not = _run_of_request(source.request, devices)
    return RunShape(problem["micro_batches"], devices, source.answer["schedule"], run, why_not)


def _run_of_request(
    request: Document | None, devices: tuple[int, ...]
) -> tuple[Run | None, str | None]:
    if request is None:
        return None, NOT_KEPT
    if request.get("model") is None:
        return None, MEASURED
    return _run(request, request.get("training") or {}, devices)


def _of_training(answer: Document) -> RunShape:
    best = answer["best"]
    training, solved = best["training"], best.get("schedule")
    devices = (
        _devices_of(solved["problem"])
        if solved
        else interleaved(training["pipeline_parallel"], training["interleaving"]).device_of_stage
    )
    run, why_not = _run(answer["provenance"]["request"], training, devices)
    plan = next(plan for plan in answer["plans"] if plan["rank"] == best["rank"])
    schedule = solved["schedule"] if solved else None
    offloading = plan.get("offloading")
    share = max(offloading["share_by_rank"]) if offloading else 0.0
    return RunShape(plan["micro_batches"], devices, schedule, run, why_not, share)


def _devices_of(problem: Document) -> tuple[int, ...]:
    return tuple(stage["device"] for stage in problem["stages"])


def _run(
    request: Document, training: Mapping[str, Any], devices: tuple[int, ...]
) -> tuple[Run | None, str | None]:
    """What the documents say, or why an older version's are not read any more."""
    try:
        costs = read_cost_model(request["model"], request["cluster"], training)
    except SpecError as error:
        return None, f"{READ_OTHERWISE} ({error})"
    return Run(costs, Placement("", devices)), None
