"""A configuration worked out: layers per stage, step time in closed form, memory of each rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from planner.cost.blocks import Blocks, build_blocks
from planner.cost.build import CostModel
from planner.cost.degrees import Degrees
from planner.cost.footprint import RankFootprint, footprints
from planner.cost.hardware import Cluster
from planner.cost.memory import StateBytes
from planner.cost.model import Model
from planner.cost.placement import Placement, interleaved
from planner.cost.step import StepTime
from planner.cost.training import Training
from planner.training.bounds import Bounds
from planner.training.offloading import (
    OffloadShortage,
    OffloadUse,
    needed_offloads,
    quickest_step,
    single_micro_batches,
)


@dataclass(frozen=True)
class Plan:
    """A configuration that fits. `training` has its layers per stage; `offload` is None where
    nothing needs to be offloaded. `proven_ns` is a bound that was proven of its schedule once it
    was worked out, 0 before."""

    training: Training
    step: StepTime
    ranks: tuple[RankFootprint, ...]
    offload: OffloadUse | None = None
    proven_ns: int = 0

    @cached_property
    def total_ns(self) -> int:
        """The predicted step, never below a bound that is known of its schedule."""
        return max(self.step.total_ns + self.offload_wait_ns, self.proven_ns)

    @property
    def bound_ns(self) -> int:
        """What no schedule of it is shorter than."""
        return max(self.step.bound_ns, self.proven_ns)

    @property
    def offload_wait_ns(self) -> int:
        """What the busiest link needs beyond the busiest rank's work, and beyond what all wait in
        any case."""
        wait_ns = self.offload.wait_ns if self.offload else 0
        return max(0, wait_ns - self.step.forced_idle_ns)

    @property
    def bubble_ns(self) -> int:
        """Waiting of the busiest rank: what the other parts do not account for."""
        step = self.step
        return self.total_ns - (
            step.compute_ns + step.transfer_ns + step.epilogue_ns + self.offload_wait_ns
        )

    def proven(self, bound_ns: int) -> Plan:
        """The same with a bound that was proven of its schedule."""
        return self if bound_ns <= self.proven_ns else replace(self, proven_ns=bound_ns)

    @cached_property
    def rank_bytes(self) -> tuple[int, ...]:
        """The most that each rank holds on a GPU."""
        totals = tuple(rank.total_bytes for rank in self.ranks)
        if self.offload is None:
            return totals
        return tuple(t - s for t, s in zip(totals, self.offload.saved_bytes, strict=True))

    @property
    def peak_bytes(self) -> int:
        """The fullest rank's memory."""
        return max(self.rank_bytes)

    @property
    def headroom_bytes(self) -> int:
        """What is left on the fullest rank."""
        return min(
            rank.limit_bytes - size for rank, size in zip(self.ranks, self.rank_bytes, strict=True)
        )

    @property
    def gpus(self) -> int:
        """GPUs in use."""
        return self.training.degrees.gpus

    @cached_property
    def key(self) -> tuple[int, ...]:
        """Plans in order: the fastest first, of equals the smaller, then the milder one."""
        training, degrees = self.training, self.training.degrees
        return (
            self.total_ns,
            self.peak_bytes,
            self.gpus,
            training.zero_stage,
            list(type(training.recomputation)).index(training.recomputation),
            int(training.offload),
            training.interleaving or 1,
            degrees.tensor,
            degrees.context,
            degrees.expert,
            degrees.pipeline,
            training.micro_batch_size,
        )


@dataclass(frozen=True)
class Shortage:
    """A configuration that does not fit: what the fullest rank needs, and why offloads do not help
    where they are allowed."""

    training: Training
    ranks: tuple[RankFootprint, ...]
    offload: OffloadShortage | None = None

    @property
    def fullest(self) -> RankFootprint:
        """The rank that is most short of memory."""
        return min(self.ranks, key=lambda rank: rank.headroom_bytes)

    @property
    def peak_bytes(self) -> int:
        """What a GPU would need."""
        if self.offload is not None:
            return self.offload.peak_bytes
        return max(rank.total_bytes for rank in self.ranks)

    @property
    def is_of_states(self) -> bool:
        """Whether states and reserve alone are too large."""
        rank = self.fullest
        return rank.static_bytes + rank.reserved_bytes > rank.limit_bytes


@dataclass(frozen=True)
class _RememberingCosts(CostModel):
    """Works out the states of each kind of rank once: dividing the layers asks for them often."""

    known: dict[Any, int] = field(default_factory=dict, compare=False)

    def expected_bytes(self, placement: Placement, device: int, layers: int) -> int:
        """As of any cost model."""
        kind = (layers, device == 0, device == placement.devices - 1)
        if kind not in self.known:
            shard = self.parameters_of(placement, device, layers)
            self.known[kind] = self.static_bytes(shard)
        in_flight = min(self.training.micro_batches, placement.devices - device)
        return self.known[kind] + in_flight * layers * self.blocks.layer.activation_bytes


class Evaluator:
    """Works out configurations of one model and cluster; what they share is computed once."""

    def __init__(self, model: Model, cluster: Cluster, states: StateBytes) -> None:
        self.bounds = Bounds(model, cluster, states)
        self._model = model
        self._cluster = cluster
        self._of_degrees: dict[Degrees, Mapping[str, Any]] = {}

    def may_hold(self, training: Training, limit_bytes: int) -> bool:
        """Whether a rank may do with `limit_bytes`, told without dividing the layers."""
        if not self.bounds.may_hold(training, limit_bytes):
            return False
        pipeline, chunks = training.degrees.pipeline, training.interleaving or 1
        # What a rank holds beside its layers' states and activations does not depend on how many
        # layers it has.
        costs = self._costs(replace(training, offload=False))
        ranks = footprints(costs, chunks, (1,) * (pipeline * chunks))
        beside = [
            rank.total_bytes
            - rank.static_bytes
            - rank.activations_bytes
            - (rank.embedding_activations_bytes if training.offload else 0)
            for rank in ranks
        ]
        return self.bounds.may_hold(training, limit_bytes, beside)

    def evaluate(self, training: Training) -> Plan | Shortage:
        """Layers balanced, 1F1B's memory, and offloads where they are allowed and needed."""
        costs, ranks = self.footprint(training)
        training = costs.training
        fits = all(rank.headroom_bytes >= 0 for rank in ranks)
        problems = single_micro_batches(costs) if fits or training.offload else []
        if not problems:
            return Shortage(training, ranks)
        step = quickest_step(problems, training)
        if fits:
            return Plan(training, step, ranks)
        use = needed_offloads(problems[0], ranks, costs.blocks, training.micro_batches)
        if isinstance(use, OffloadShortage):
            return Shortage(training, ranks, use)
        return Plan(training, step, ranks, use)

    def footprint(self, training: Training) -> tuple[CostModel, tuple[RankFootprint, ...]]:
        """The cost model with the layers divided, and each rank's memory without offloads."""
        chunks = training.interleaving or 1
        costs = self._costs(training)
        layers = costs.layers_per_stage(interleaved(training.degrees.pipeline, chunks))
        costs = replace(costs, training=replace(training, layers_per_stage=layers))
        return costs, footprints(costs, chunks, layers)

    def _costs(self, training: Training) -> CostModel:
        shared = self._shared(training)
        blocks = self._blocks(training, shared)
        return _RememberingCosts(**{**shared, "training": training, "blocks": blocks})

    def _shared(self, training: Training) -> Mapping[str, Any]:
        """What only depends on where the ranks lie."""
        degrees = training.degrees
        if degrees not in self._of_degrees:
            costs = CostModel.of(self._model, self._cluster, training)
            self._of_degrees[degrees] = {f.name: getattr(costs, f.name) for f in fields(costs)}
        return self._of_degrees[degrees]

    def _blocks(self, training: Training, shared: Mapping[str, Any]) -> Blocks:
        if not training.offload:
            return self.bounds.blocks(training)
        return build_blocks(self._model, self._cluster, training, shared["links"])
