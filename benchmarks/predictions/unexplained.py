"""A report that cannot be reconciled, and reference values that the planner does not predict."""

from __future__ import annotations

from typing import Any

from benchmarks.predictions.settings import A100_FLOP_PER_S, a100s, ranks, step
from benchmarks.recording import Table
from planner.cost.hardware import read_cluster
from planner.cost.model import read_model
from planner.cost.spec import read_cost_model
from planner.cost.step import model_flops
from planner.sizes import GIB

SAMPLES, REPORTED_PER_S = 1024, 680
NOT_PREDICTED = (
    ("Megatron-LM's memory test with experts and latent attention", "latent attention is not a "
     "kind of attention that the cost model has, and the sizes are not published"),
    ("6.6 GB of a Mixtral-like model, mbridge", "expert ranks and optimizer are not published"),
    ("slowdown by full offload under 1F1B, PipeOffload, 8 GPUs", "neither which activations stay "
     "nor how transfers of a pair take turns is published"),
    ("copies of GH200 and GB300 to the host", "no presets: a cluster gives its own rates"),
    ("bubble rates of zero-bubble schedules", "a schedule is found, not predicted: they stand with "
     "the pipeline schedules above"),
    ("memory of the plans of Shi et al. 2025, table 2", "batch, sequence, dtype, optimizer and GPU "
     "are not published: orderings stand with the sharding plans above"),
    ("sizes of the programs of ColossalAI and autoparallel", "of their formulations, not of ours"),
)  # fmt: skip


def reported_case() -> Table:
    """175B on 32 nodes of 8 A100-80GB: what an article reports, and what the model says of it."""
    model = read_model("GPT-3-175B")
    of_peak = REPORTED_PER_S * model_flops(model, model.sequence, 1) / (256 * A100_FLOP_PER_S)
    note = (
        "An article reports 120 samples/s with data parallelism alone (micro-batch 4), and "
        f"{REPORTED_PER_S} samples/s and 60 % less memory with 8-way tensor and 4-way data "
        "parallelism, BF16 and layer-wise checkpointing; neither its sequence nor its global "
        f"batch. Ours: {SAMPLES:,} samples of {model.sequence:,} tokens. The two cannot be "
        f"reconciled: {REPORTED_PER_S} samples/s of so many tokens would take {of_peak:.0f} times "
        "the peak of 256 A100s, and one GPU would have to hold all states of the model without "
        "tensor parallelism. The samples must have been far shorter, or the model smaller than it "
        "is called; 8 x 4 GPUs are also only 32 of the 256. What holds here as there: states are "
        "what does not fit, and tensor parallelism with recomputation makes them fit."
    )
    rows = [_reported_row(name, training) for name, training in _settings().items()]
    columns = ("setting", "GiB per GPU", "fits", "samples/s")
    return Table("175B on 32 x 8 A100-80GB", columns, rows, note)


def not_predicted() -> Table:
    """Reference values without a figure of ours."""
    return Table("Not predicted", ("reference value", "why"), NOT_PREDICTED)


def _settings() -> dict[str, dict[str, Any]]:
    one_rank = {"pipeline_parallel": 1, "micro_batch_size": 4, "global_batch_size": SAMPLES}
    alone = {**one_rank, "data_parallel": 256, "flash_attention": False}
    tensor = {**one_rank, "tensor_parallel": 8, "data_parallel": 32, "recomputation": "full"}
    return {
        "data 256": alone,
        "data 256, ZeRO stage 3, full recomputation": {
            **alone,
            "zero_stage": 3,
            "recomputation": "full",
        },
        "tensor 8, data 32, full recomputation": tensor,
        "the same, ZeRO stage 1": {**tensor, "zero_stage": 1},
        "the same, ZeRO stage 2": {**tensor, "zero_stage": 2},
    }


def _reported_row(name: str, training: dict[str, Any]) -> list[str]:
    costs = read_cost_model("GPT-3-175B", a100s(256), training | {"offload": False})
    peak_bytes = max(rank.total_bytes for rank in ranks(costs, 1))
    fits = peak_bytes <= read_cluster("8xA100-80GB").memory_bytes
    seconds = step(costs, 1).total_ns / 1e9
    return [
        name,
        f"{peak_bytes / GIB:,.0f}",
        "yes" if fits else "OOM",
        f"{SAMPLES / seconds:.1f}",
    ]
