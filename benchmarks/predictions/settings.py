"""Clusters, runs that several tables are of, and what a spec's ranks hold and its step takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.cost.build import CostModel
from planner.cost.footprint import RankFootprint, footprints
from planner.cost.placement import interleaved
from planner.cost.spec import read_cost_model
from planner.cost.step import StepTime, step_time

UNLIMITED = 2**50
"""GPU memory where a figure is of time alone, or of a run that only fits with what it left out."""
A100_FLOP_PER_S = 312e12


def nodes_of(gpu: str, gpus: int) -> Mapping[str, Any]:
    """A cluster of nodes with eight of these GPUs, or of one smaller node."""
    return {
        "gpu": gpu,
        "gpus_per_node": min(gpus, 8),
        "nodes": max(1, gpus // 8),
        "gpu_memory_bytes": UNLIMITED,
    }


def a100s(gpus: int) -> Mapping[str, Any]:
    """A cluster of A100-80GB."""
    return nodes_of("A100-80GB", gpus)


def ranks(costs: CostModel, chunks: int) -> tuple[RankFootprint, ...]:
    """What each pipeline rank holds."""
    placement = interleaved(costs.training.degrees.pipeline, chunks)
    return footprints(costs, chunks, costs.layers_per_stage(placement))


def step(costs: CostModel, chunks: int) -> StepTime:
    """One training step in closed form."""
    candidate, *_ = costs.candidates()
    return step_time(candidate.problem, chunks, costs.training.micro_batches)


@dataclass(frozen=True)
class Run:
    """A run of Megatron-LM: preset, micro-batch, degrees, chunks and samples a step."""

    preset: str
    micro_batch_size: int
    tensor: int
    pipeline: int
    chunks: int
    samples: int
    gpus: int

    def costs(self, *, sequence_parallel: bool, recomputation: str) -> CostModel:
        """On A100s, attention scores stored."""
        return read_cost_model(
            self.preset,
            a100s(self.gpus),
            {
                "micro_batch_size": self.micro_batch_size,
                "global_batch_size": self.samples,
                "tensor_parallel": self.tensor,
                "pipeline_parallel": self.pipeline,
                "interleaving": self.chunks,
                "sequence_parallel": sequence_parallel,
                "recomputation": recomputation,
                "flash_attention": False,
                "offload": False,
            },
        )


RUNS = {
    "22B": Run("Megatron-22B", 4, 8, 1, 1, 4, 8),
    "175B": Run("Megatron-175B", 1, 8, 8, 3, 64, 64),
    "530B": Run("Megatron-530B", 1, 8, 35, 3, 280, 280),
    "1T": Run("Megatron-1T", 1, 8, 64, 1, 512, 512),
}
"""Korthikanti et al. 2022, tables 3 and 5."""
