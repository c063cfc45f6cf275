"""What Megatron-LM's own tests measured, and what its own report says."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.predictions.rows import Group, Row
from benchmarks.predictions.settings import a100s, nodes_of, ranks
from benchmarks.references import MEMORY_TEST_MODEL
from planner.cost.build import CostModel
from planner.cost.footprint import RankFootprint
from planner.cost.model import read_model
from planner.cost.parameters import count_parameters
from planner.cost.spec import read_cost_model
from planner.sizes import MIB

TENSOR = {"tensor_parallel": 4, "pipeline_parallel": 1, "micro_batch_size": 2}
PIPELINE = {"pipeline_parallel": 4, "micro_batch_size": 1, "interleaving": 8}
MEASURED = {
    "A100, tensor 4, data 2, micro-batch 2": (
        ("A100-80GB", TENSOR),
        (20_634_103_808, 58_188_115_968),
    ),
    "H100, tensor 4, data 2, micro-batch 2": (
        ("H100-80GB", TENSOR),
        (20_663_519_232, 57_143_791_616),
    ),
    "A100, pipeline 4 of 8 chunks, data 2, micro-batch 1": (
        ("A100-80GB", PIPELINE),
        (24_510_808_064, 60_489_064_448),
    ),
}
"""GPU and training; bytes allocated, and the most allocated at one time."""


def groups() -> Iterator[Group]:
    """Measured memory, and the report."""
    yield Group(
        "Memory measured by Megatron-LM's own tests",
        "Megatron-LM, golden values; the last case's activations depend on how its interleaved "
        "schedule holds chunks",
        list(_measured()),
    )
    yield Group(
        "Megatron-LM's theoretical report",
        "Megatron-LM, `theoretical_memory_usage`: an estimate as ours is, which leaves out the "
        "biases of linear layers and learned positions. 175B is with 8 micro-batches, which its "
        "activations imply",
        list(_report()),
    )


def _measured() -> Iterator[Row]:
    for name, ((gpu, degrees), (allocated, most)) in MEASURED.items():
        costs = read_cost_model(
            MEMORY_TEST_MODEL,
            nodes_of(gpu, 8),
            {
                **degrees,
                "data_parallel": 2,
                "micro_batches": 16,
                "sequence_parallel": False,
                "zero_stage": 1,
                "offload": False,
            },
        )
        fullest = max(
            ranks(costs, costs.training.interleaving or 1),
            key=lambda rank: rank.peak_allocated_bytes,
        )
        yield Row(f"{name}: allocated", "bytes", allocated, fullest.static_bytes)
        yield Row(f"{name}: most allocated", "bytes", most, fullest.peak_allocated_bytes)


def _report() -> Iterator[Row]:
    model = "Megatron-175B"
    degrees = {"tensor_parallel": 8, "pipeline_parallel": 16, "data_parallel": 8}
    costs = read_cost_model(
        model,
        a100s(1024),
        {**degrees, "micro_batches": 8, "interleaving": 1, "zero_stage": 1, "offload": False},
    )
    first, second = ranks(costs, 1)[:2]
    yield Row(
        "175B, parameters", "billions", 174.58, count_parameters(read_model(model)).total / 1e9
    )
    yield Row("175B, parameters of the fullest GPU", "billions", 1.4379, first.parameters / 1e9)
    yield Row("175B, parameters of the others", "billions", 1.3593, second.parameters / 1e9)
    yield Row("175B, states", "MiB", 10_284.62, first.static_bytes / MIB)
    yield Row("175B, activations", "MiB", 4_920.02, _activations_bytes(costs, first) / MIB)
    costs = read_cost_model(
        "Megatron-22B",
        a100s(8),
        {"tensor_parallel": 8, "micro_batch_size": 4, "micro_batches": 1, "offload": False},
    )
    (only,) = ranks(costs, 1)
    yield Row("22B, states", "MiB", 47_351.46, only.static_bytes / MIB)
    yield Row("22B, activations", "MiB", 10_022.01, _activations_bytes(costs, only) / MIB)
    costs = read_cost_model(
        "Llama-3-8B",
        a100s(8),
        {"data_parallel": 8, "micro_batches": 1, "zero_stage": 1, "offload": False},
    )
    (only,) = ranks(costs, 1)
    yield Row("Llama-3-8B, data 8, states", "MiB", 57_436.90, only.static_bytes / MIB)


def _activations_bytes(costs: CostModel, rank: RankFootprint) -> int:
    """Of layers, embedding and head, as the report adds them up."""
    head = costs.blocks.head.activation_bytes if rank.logits_bytes else 0
    return rank.activations_bytes + rank.embedding_activations_bytes + head
