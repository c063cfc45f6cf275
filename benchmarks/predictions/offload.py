"""What PipeOffload reports: transfers against computation, utilisation and activations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from benchmarks.predictions.rows import Group, Row, with_why
from benchmarks.predictions.settings import A100_FLOP_PER_S, a100s
from planner.cost.blocks import activation_shape
from planner.cost.build import CostModel
from planner.cost.memory import layer_activation_bytes, layer_mask_bytes
from planner.cost.spec import read_cost_model
from planner.cost.step import flops_utilization, model_flops
from planner.pipeline.classic.schedules import (
    group_sizes,
    grouped_interleaved_schedule,
    interleaved_schedule,
    one_forward_one_backward_schedule,
    uniform_interleaved_schedule,
)
from planner.pipeline.classic.timed import TimedClassic
from planner.pipeline.problem import PipelineProblem

SEQUENCES = (4096, 8192, 16_384, 32_768)
ROUND_TRIPS = {
    4096: (1.70, 1.46, 1.15, 0.80),
    5120: (1.40, 1.23, 1.00, 0.72),
    6144: (1.19, 1.07, 0.88, 0.66),
    7168: (1.03, 0.94, 0.80, 0.61),
    8192: (0.92, 0.84, 0.72, 0.56),
    10_240: (0.74, 0.69, 0.61, 0.49),
}
"""By hidden size, one for each of `SEQUENCES`: the time to offload and reload a layer's activation,
over that of its forward and backward."""
SCHEDULES = ("1F1B-I", "GIS", "GIS-H", "PO-H", "PO-F", "1F1B")
Figures = tuple[int | None, ...]


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
_ = None
REPORTED: Mapping[tuple[str, int], tuple[Figures, Figures]] = {
    ("10.5B", 4096): ((65, 65, 63, 59, _, 57), (15, 13, 8, 3, _, 12)),
    ("10.5B", 8192): ((68, 68, 65, 61, _, 59), (30, 27, 16, 6, _, 24)),
    ("10.5B", 16_384): ((_, _, 68, 63, 59, 62), (_, _, 32, 12, 9, 48)),
    ("10.5B", 32_768): ((_, _, _, 65, 64, _), (_, _, _, 24, 14, _)),
    ("18.1B", 4096): ((64, 65, 63, 59, _, 56), (24, 19, 13, 4, _, 18)),
    ("18.1B", 8192): ((66, 67, 66, 62, _, 58), (49, 38, 25, 8, _, 37)),
    ("18.1B", 16_384): ((_, _, 59, 64, 61, _), (_, _, 51, 15, 9, _)),
    ("18.1B", 32_768): ((_, _, _, 65, 65, _), (_, _, _, 27, 15, _)),
    ("42.9B", 4096): ((63, 65, 64, 62, 58, 55), (49, 34, 25, 10, 5, 33)),
    ("42.9B", 8192): ((_, _, 62, 63, 60, _), (_, _, 51, 20, 8, _)),
    ("42.9B", 16_384): ((_, _, _, 63, 65, _), (_, _, _, 41, 12, _)),
}
"""MFU in % and GB of activations, in the order of `SCHEDULES`; None where the paper has none."""
WHY_ROUND_TRIP = (
    "PipeOffload's k counts the whole square of attention scores, of which flash attention "
    "computes half, and 15 GB/s, measured, where half of the datasheet's link counts here"
)
WHY_MFU = (
    "MFU counts the whole square of attention scores, and here flash attention takes the time of "
    "half of it at the rate of other products"
)
WHY_ACTIVATIONS = (
    "the paper gives neither which chunks its program holds back nor what else it counts as "
    "activations"
)


def groups() -> Iterator[Group]:
    """The tables of the paper."""
    source = "PipeOffload (arXiv 2503.01328)"
    kept = (
        "layers keep what is left without the outputs of norms and of GeLU (20 s b h bytes, less "
        "with grouped queries), as the paper's do"
    )
    yield Group(
        "Offload round trips",
        f"{source}, A100s in pairs behind a switch; {kept}",
        list(_round_trips()),
    )
    models = (
        f"{source}. Its chunks per device follow from the layers, its vocabulary "
        f"of 32,000 from the numbers of parameters; {kept}. A100-80GB, the schedules of "
        "these names as this planner makes them"
    )
    yield Group("PipeOffload's models, MFU", f"{models}; MFU in %", list(_utilisation()))
    yield Group("PipeOffload's models, activations", models, list(_activations()))


def _round_trips() -> Iterator[Row]:
    for hidden, published in ROUND_TRIPS.items():
        for sequence, reference in zip(SEQUENCES, published, strict=True):
            layer = _costs(8, hidden, hidden // 128, hidden // 128, sequence, 8, 8).blocks.layer
            ours = (layer.offload_ns + layer.reload_ns) / layer.compute_ns
            yield from with_why(
                [Row(f"h {hidden}, {sequence} tokens", "of F + B + W", reference, ours)],
                WHY_ROUND_TRIP,
            )


def _utilisation() -> Iterator[Row]:
    for name, sequence, schedule, mfu, _gb in _reported():
        size, model, timed = SIZES[name], *_timed(name, sequence, schedule)
        flops = model_flops(model.model, sequence, size.samples)
        ours = flops_utilization(flops, timed.makespan_ns, size.gpus, A100_FLOP_PER_S)
        row = Row(f"{name}, {sequence} tokens, {schedule}", "%", mfu, 100 * ours)
        yield from with_why([row], WHY_MFU)


def _activations() -> Iterator[Row]:
    for name, sequence, schedule, _mfu, gigabytes in _reported():
        _, timed = _timed(name, sequence, schedule)
        ours = max(timed.peak_memory_bytes) / 1e9
        row = Row(f"{name}, {sequence} tokens, {schedule}", "GB", gigabytes, ours)
        yield from with_why([row], WHY_ACTIVATIONS)


def _reported() -> Iterator[tuple[str, int, str, int, int]]:
    for (name, sequence), (shares, sizes) in REPORTED.items():
        for schedule, mfu, gigabytes in zip(SCHEDULES, shares, sizes, strict=True):
            if mfu is not None and gigabytes is not None:
                yield name, sequence, schedule, mfu, gigabytes


@cache
def _timed(name: str, sequence: int, schedule: str) -> tuple[CostModel, TimedClassic]:
    """A schedule of a model, and the costs that it is of."""
    size = SIZES[name]
    costs = _costs(size.layers, size.hidden_size, size.heads, 8, sequence, size.samples, size.gpus)
    if schedule == "1F1B":
        return costs, one_forward_one_backward_schedule(_problem(costs, size.gpus, size.chunks, 1))
    chunks = size.chunks
    problem = _problem(costs, size.gpus, 1, chunks)
    if schedule == "1F1B-I":
        return costs, interleaved_schedule(problem, chunks)
    if schedule in ("GIS", "GIS-H"):
        sizes = group_sizes(problem, chunks)
        group = sizes[-1] if schedule == "GIS" else sizes[0]
        return costs, grouped_interleaved_schedule(problem, chunks, group)
    offloaded = chunks if schedule == "PO-F" else chunks // 2
    return costs, uniform_interleaved_schedule(problem, chunks, offloaded)


def _problem(costs: CostModel, gpus: int, layers: int, chunks: int) -> PipelineProblem:
    """So many layers a stage, one less in the first and the last."""
    stages = gpus * chunks
    per_stage = (layers - 1, *[layers] * (stages - 2), layers - 1)
    training = replace(costs.training, interleaving=chunks, layers_per_stage=per_stage)
    candidate, *_others = replace(costs, training=training).candidates()
    return candidate.problem


def _costs(
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    sequence: int,
    micro_batches: int,
    gpus: int,
) -> CostModel:
    """Of a model whose layers keep what PipeOffload's do: that takes two readings."""
    model = {
        "layers": layers,
        "hidden_size": hidden,
        "heads": heads,
        "kv_heads": kv_heads,
        "vocabulary": 32_000,
        "sequence": sequence,
        "position_embeddings": "rotary",
        "tied_embeddings": True,
    }
    training: dict[str, Any] = {"micro_batches": micro_batches, "pipeline_parallel": gpus}
    kept = _kept_bytes(read_cost_model(model, a100s(gpus), training))
    profile = {"layer": {"activation_bytes": kept, "weight_grad_bytes": kept}}
    return read_cost_model(model, a100s(gpus), training | {"profile": profile})


def _kept_bytes(costs: CostModel) -> int:
    """A layer's activation without dropout masks, outputs of norms, and output of GeLU."""
    model, shape = costs.model, activation_shape(costs.training)
    again = shape.element_bytes * (2 * model.hidden_size + model.ffn_hidden_size) * shape.tokens
    masks = layer_mask_bytes(model, shape, with_scores=False)
    return layer_activation_bytes(model, shape) - masks - again
