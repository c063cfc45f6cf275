"""Parameters, model states and activations, by published formulas and figures."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.predictions.rows import Group, Row, with_why
from benchmarks.predictions.settings import RUNS, a100s, ranks
from benchmarks.references import PARAMETERS
from planner.cost.blocks import activation_shape
from planner.cost.build import CostModel
from planner.cost.degrees import Degrees
from planner.cost.memory import layer_input_bytes, layer_mask_bytes, state_bytes
from planner.cost.model import read_model
from planner.cost.parameters import Shard, count_parameters, layer_shard
from planner.cost.spec import read_cost_model
from planner.sizes import GIB

ACTIVATIONS = {
    "22B": (59.25, 9.5625, 45.5625),
    "175B": (66.84375, 12.3515625, 45.5625),
    "530B": (114.0234375, 23.076171875, 31.640625),
    "1T": (131.25, 26.5625, 32.958984375),
}
"""GiB per GPU of the first stage: tensor parallel, with sequence parallelism and selective
recomputation; and parameters, gradients and optimizer states of its layers at 18 bytes each."""
SHARES = {
    "22B": (66.84, 49.42, 16.18, 7.64),
    "175B": (62.04, 56.53, 18.49, 8.71),
    "530B": (58.31, 62.04, 20.27, 9.42),
    "1T": (58.31, 62.04, 20.27, 9.42),
}
"""% of tensor parallelism alone: sequence parallelism, selective recomputation, both, full
recomputation."""


def groups() -> Iterator[Group]:
    """Every table of sizes that needs no framework."""
    yield Group("Parameters", "Released configurations", list(_parameters()))
    yield Group("Activations", "Korthikanti et al. 2022, figure 1", list(_activations()))
    yield Group(
        "Activations of what is recomputed",
        "Korthikanti et al. 2022, figure 7, in % of tensor parallelism alone",
        list(_shares()),
    )
    yield Group(
        "States of layers",
        "Korthikanti et al. 2022, figure 1, at 18 bytes for each of 12 h² parameters of a layer",
        list(_layer_states()),
    )
    yield Group("Model states", "Rajbhandari et al. 2020, figure 1", list(_zero_states()))
    yield Group(
        "Memory of PyTorch's pipelining",
        "Measured on PyTorch 2.13, two blocks, in units of the activation that goes from stage to "
        "stage. The formulas are those of GPT's layers without dropout masks; `loadmaster profile` "
        "measures a program's own",
        list(_torch_pipelining()),
    )


def _parameters() -> Iterator[Row]:
    for name, published in PARAMETERS.items():
        yield Row(name, "parameters", published, count_parameters(read_model(name)).total)


def _activations() -> Iterator[Row]:
    for name, (tensor_alone, with_both, _) in ACTIVATIONS.items():
        for what, reference, sequence_parallel, recomputation in (
            ("tensor", tensor_alone, False, "none"),
            ("tensor and sequence, selective recomputation", with_both, True, "selective"),
        ):
            ours = _first_stage_bytes(name, sequence_parallel, recomputation) / GIB
            yield Row(f"{name}, {what}", "GiB", reference, ours)


def _shares() -> Iterator[Row]:
    settings = {
        "sequence parallel": (True, "none"),
        "selective recomputation": (False, "selective"),
        "both": (True, "selective"),
        "full recomputation": (False, "full"),
    }
    for name, published in SHARES.items():
        whole = _first_stage_bytes(name, False, "none")
        for (what, setting), reference in zip(settings.items(), published, strict=True):
            ours = 100 * _first_stage_bytes(name, *setting) / whole
            yield Row(f"{name}, {what}", "%", reference, ours)


def _first_stage_bytes(name: str, sequence_parallel: bool, recomputation: str) -> int:
    run = RUNS[name]
    costs = run.costs(sequence_parallel=sequence_parallel, recomputation=recomputation)
    return ranks(costs, run.chunks)[0].activations_bytes


def _layer_states() -> Iterator[Row]:
    states = state_bytes("bf16", "fp32", "adam")
    for name, (_, _, published) in ACTIVATIONS.items():
        run = RUNS[name]
        model = read_model(run.preset)
        own = layer_shard(model, run.tensor).times(model.layers // run.pipeline)
        ours = states.on_rank(own, 0, Degrees(1, run.tensor, 1)) / GIB
        yield Row(f"{name}, layers of a GPU", "GiB", published, ours)


def _zero_states() -> Iterator[Row]:
    states = state_bytes("fp16", "same", "adam")
    for stage, gigabytes in enumerate((120, 31.4, 16.6, 1.875)):
        ours = states.on_rank(Shard(7_500_000_000), stage, Degrees(1, 1, 64)) / 1e9
        yield Row(f"7.5 billion parameters on 64 GPUs, ZeRO stage {stage}", "GB", gigabytes, ours)


def _torch_pipelining() -> Iterator[Row]:
    plain, recomputed = _two_blocks("none"), _two_blocks("full")
    shape = activation_shape(plain.training)
    unit = layer_input_bytes(plain.model, shape)
    masks = layer_mask_bytes(plain.model, shape, with_scores=False)
    kept = 2 * (plain.blocks.layer.activation_bytes - masks) / unit
    weights = 2 * plain.blocks.layer.weight_grad_bytes / unit
    yield from with_why(
        [Row("F adds", "activations", 36.1, kept)],
        "the attention of the blocks measured is not described; the formula keeps none of its "
        "scores",
    )
    moved = 2 * recomputed.blocks.layer.activation_bytes / unit
    yield Row("O moves, blocks recomputed", "activations", 2.0, moved)
    yield Row("W frees, deferred weight gradients", "activations", 31.0, weights)
    yield from with_why(
        [Row("W frees, native split", "activations", 56.1, weights)],
        "PyTorch's native split keeps the whole graph until W and adds output gradients, 1.6 times "
        "what F added; the formula is of a backward that frees what it has used",
    )


def _two_blocks(recomputation: str) -> CostModel:
    model = {"layers": 2, "hidden_size": 256, "heads": 8, "vocabulary": 128, "sequence": 128}
    training = {"micro_batches": 1, "recomputation": recomputation}
    return read_cost_model(model, a100s(1), training)
