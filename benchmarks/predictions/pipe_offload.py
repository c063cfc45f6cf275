"""The models of PipeOffload (arXiv 2503.01328) on its GPUs, and schedules of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from benchmarks.predictions.settings import a100s
from planner.cost.blocks import activation_shape
from planner.cost.build import Candidate, CostModel
from planner.cost.hardware import read_cluster
from planner.cost.memory import layer_activation_bytes, layer_mask_bytes
from planner.cost.spec import read_cost_model
from planner.pipeline.classic.schedules import (
    group_sizes,
    grouped_interleaved_schedule,
    interleaved_schedule,
    one_forward_one_backward_schedule,
    uniform_interleaved_schedule,
)
from planner.pipeline.classic.timed import TimedClassic
from planner.pipeline.problem import PipelineProblem

SCHEDULES = ("1F1B-I", "GIS", "GIS-H", "PO-H", "PO-F", "1F1B")


@dataclass(frozen=True)
class Size:
    """A model of the paper on its GPUs, one stage on each, and a step's samples."""

    layers: int
    hidden_size: int
    heads: int
    samples: int
    gpus: int

    @property
    def chunks(self) -> int:
        """Of a device: each has one layer, but the first and the last stage's, which have none
        beside embedding and head."""
        return (self.layers + 2) // self.gpus


SIZES = {
    "10.5B": Size(38, 5120, 40, 64, 8),
    "18.1B": Size(46, 6144, 48, 128, 16),
    "42.9B": Size(62, 8192, 64, 256, 32),
}


class Open(NamedTuple):
    """What the paper leaves open, or we do not take from it: GB/s of copies, and whether half of
    an odd number of chunks is the larger one. None is the cluster's own rate."""

    host_gb_per_s: float | None = None
    half_up: bool = False


@dataclass(frozen=True)
class Scheduled:
    """A model on its GPUs, what it costs, and a schedule of it."""

    costs: CostModel
    candidate: Candidate
    timed: TimedClassic


@cache
def scheduled(name: str, sequence: int, schedule: str, asked: Open) -> Scheduled:
    """The schedule of this name of a model of `SIZES`, a stage for each chunk of a GPU."""
    size = SIZES[name]
    model = model_of(size.layers, size.hidden_size, size.heads, 8, sequence)
    costs = costs_of(model, size.samples, size.gpus, asked)
    if schedule == "1F1B":
        candidate = _candidate(costs, size.gpus, size.chunks, 1)
    else:
        candidate = _candidate(costs, size.gpus, 1, size.chunks)
    timed = _schedule(schedule, candidate.problem, size.chunks, half_up=asked.half_up)
    return Scheduled(costs, candidate, timed)


def _schedule(name: str, problem: PipelineProblem, chunks: int, *, half_up: bool) -> TimedClassic:
    if name == "1F1B":
        return one_forward_one_backward_schedule(problem)
    if name == "1F1B-I":
        return interleaved_schedule(problem, chunks)
    if name in ("GIS", "GIS-H"):
        sizes = group_sizes(problem, chunks)
        return grouped_interleaved_schedule(
            problem, chunks, sizes[-1] if name == "GIS" else sizes[0]
        )
    half = (chunks + half_up) // 2
    return uniform_interleaved_schedule(problem, chunks, chunks if name == "PO-F" else half)


def _candidate(costs: CostModel, gpus: int, layers: int, chunks: int) -> Candidate:
    """So many layers a stage, one less in the first and the last."""
    stages = gpus * chunks
    per_stage = (layers - 1, *[layers] * (stages - 2), layers - 1)
    training = replace(costs.training, interleaving=chunks, layers_per_stage=per_stage)
    candidate, *_others = replace(costs, training=training).candidates()
    return candidate


def model_of(layers: int, hidden: int, heads: int, kv_heads: int, sequence: int) -> dict[str, Any]:
    """A model document; the vocabulary is what the paper's numbers of parameters imply."""
    return {
        "layers": layers,
        "hidden_size": hidden,
        "heads": heads,
        "kv_heads": kv_heads,
        "vocabulary": 32_000,
        "sequence": sequence,
        "position_embeddings": "rotary",
        "tied_embeddings": True,
    }


def costs_of(model: Mapping[str, Any], micro_batches: int, gpus: int, asked: Open) -> CostModel:
    """With layers that keep what PipeOffload's do: that takes two readings."""
    cluster = dict(a100s(gpus))
    if asked.host_gb_per_s is not None:
        share = 1e9 * asked.host_gb_per_s / read_cluster(cluster).gpu.pcie_bytes_per_s
        cluster["efficiency"] = {"pcie": share}
    training: dict[str, Any] = {"micro_batches": micro_batches, "pipeline_parallel": gpus}
    kept = _kept_bytes(read_cost_model(model, cluster, training))
    profile = {"layer": {"activation_bytes": kept, "weight_grad_bytes": kept}}
    return read_cost_model(model, cluster, training | {"profile": profile})


def _kept_bytes(costs: CostModel) -> int:
    """A layer's activation without dropout masks, outputs of norms, and output of GeLU."""
    model, shape = costs.model, activation_shape(costs.training)
    again = shape.element_bytes * (2 * model.hidden_size + model.ffn_hidden_size) * shape.tokens
    masks = layer_mask_bytes(model, shape, with_scores=False)
    return layer_activation_bytes(model, shape) - masks - again
