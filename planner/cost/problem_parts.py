"""Stages and hosts of a pipeline problem, from the costs of their blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.cost.blocks import Block
from planner.cost.offload.paths import OffloadPath
from planner.pipeline.problem import Host, Stage


@dataclass(frozen=True, slots=True)
class StageCosts:
    """A stage: the sum of its blocks per micro-batch, on its device, and its parts in words."""

    device: int
    block: Block
    name: str


def stage_from(costs: StageCosts, count: int) -> Stage:
    """The stage with `count` micro-batches, all alike."""
    block = costs.block
    return Stage(
        device=costs.device,
        forward_ns=(block.forward_ns,) * count,
        backward_input_ns=(block.backward_input_ns,) * count,
        backward_weight_ns=(block.backward_weight_ns,) * count,
        activation_bytes=(block.activation_bytes,) * count,
        weight_grad_bytes=(block.weight_grad_bytes,) * count,
        backward_workspace_bytes=(block.backward_workspace_bytes,) * count,
        offload_bytes=(block.offload_bytes,) * count,
        offload_ns=(block.offload_ns,) * count,
        reload_ns=(block.reload_ns,) * count,
        name=costs.name,
    )


def hosts_from(path: OffloadPath, stages: Sequence[StageCosts]) -> tuple[Host, ...]:
    """The stores of a path, none where it has no limit.

    Limits count bytes before compression, as a problem's offloads do: of the stage that compresses
    least, so that no store gets more than it holds.
    """
    if not path.is_limited:
        return ()
    blocks = [stage.block for stage in stages if stage.block.host_bytes]

    def limit(memory_bytes: int | None) -> int | None:
        if memory_bytes is None or not blocks:
            return memory_bytes
        return min(memory_bytes * block.offload_bytes // block.host_bytes for block in blocks)

    compressed = any(block.host_bytes < block.offload_bytes for block in blocks)
    suffix = ", counted before compression" if compressed else ""
    return tuple(Host(limit(store.memory_bytes), store.name + suffix) for store in path.stores)
