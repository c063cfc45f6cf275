"""Iterations, passes of stages, and hops between them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks.predictions.rows import Group, Row, with_why
from benchmarks.predictions.settings import A100_FLOP_PER_S, RUNS, a100s, step
from planner.cost.build import CostModel
from planner.cost.spec import read_cost_model
from planner.cost.step import flops_utilization, hardware_flops, model_flops

ITERATIONS = {
    "22B": (41.7, 43.7, 1.10, 1.42),
    "175B": (51.4, 52.8, 13.75, 18.13),
    "530B": (56.0, 57.0, 37.83, 49.05),
    "1T": (56.3, 57.0, 71.49, 94.42),
}
"""MFU and HFU in %, seconds with selective and with full recomputation."""
SHAPES = {
    "1.5B": (2304, 24, 6, 3),
    "6.2B": (4096, 32, 3, 4),
    "14.6B": (5120, 40, 1, 3),
    "28.3B": (6144, 48, 1, 2),
}
"""Hidden size, heads, micro-batch size, layers of a stage."""
PROFILES = {
    "1.5B": (
        (8, 24, (18_522, 18_086, 9_337), 601),
        (8, 32, (18_513, 18_086, 9_331), 626),
        (8, 64, (18_546, 18_097, 9_321), 762),
    ),
    "6.2B": (
        (8, 24, (29_718, 29_444, 19_927), 527),
        (8, 32, (29_802, 29_428, 19_530), 577),
        (8, 64, (29_935, 29_621, 19_388), 535),
    ),
    "14.6B": (
        (16, 48, (11_347, 11_248, 8_132), 377),
        (16, 64, (11_307, 11_254, 8_101), 379),
        (16, 128, (11_325, 11_308, 8_109), 378),
    ),
    "28.3B": (
        (32, 96, (10_419, 10_207, 7_715), 408),
        (32, 128, (10_408, 10_204, 7_703), 408),
        (32, 256, (10_402, 10_248, 7_698), 460),
    ),
}
"""Stages, micro-batches; microseconds of F, B and W of a stage, and of a hop."""
VTRAIN = (
    (1, 1, 8, 3566.5),
    (2, 1, 8, 3975.2),
    (1, 2, 2, 4034.9),
    (4, 1, 8, 4634.4),
    (4, 1, 2, 6228.3),
)
"""Tensor and pipeline degree, micro-batch size; milliseconds of an iteration."""


def groups() -> Iterator[Group]:
    """Every table of times."""
    yield Group(
        "Iterations",
        "Korthikanti et al. 2022, table 5; MFU and HFU in %",
        list(_iterations()),
        fitted=True,
    )
    yield Group(
        "Forward and backward passes",
        "Qi et al. 2024, profiles of their schedules; the rates were fitted to one of each size",
        list(_passes()),
        fitted=True,
    )
    yield Group(
        "Hops between stages",
        "Qi et al. 2024, the same profiles; ours is the mean over the hops of a pipeline",
        list(_hops()),
    )
    yield Group(
        "3.6B on 64 A100s, full recomputation, 512 samples",
        "vTrain, measured; the order of the rows is the order of the measured times",
        list(_vtrain()),
    )


def _iterations() -> Iterator[Row]:
    for name, (mfu, hfu, seconds, seconds_full) in ITERATIONS.items():
        run = RUNS[name]
        costs = run.costs(sequence_parallel=True, recomputation="selective")
        step_ns = step(costs, run.chunks).total_ns

        def share(flops: int, ns: int = step_ns, gpus: int = run.gpus) -> float:
            return 100 * flops_utilization(flops, ns, gpus, A100_FLOP_PER_S)

        flops = model_flops(costs.model, costs.training.sequence, run.samples)
        yield Row(f"{name}, MFU", "%", mfu, share(flops))
        yield Row(f"{name}, HFU", "%", hfu, share(hardware_flops(costs)))
        yield Row(f"{name}, selective recomputation", "s", seconds, step_ns / 1e9)
        full = run.costs(sequence_parallel=False, recomputation="full")
        full_ns = step(full, run.chunks).total_ns
        yield Row(f"{name}, full recomputation", "s", seconds_full, full_ns / 1e9)


def profiled(name: str, stages: int, micro_batches: int) -> CostModel:
    """Of the model that a profile is of: the first and the last stage have a layer less."""
    hidden, heads, batch, layers = SHAPES[name]
    model = {
        "layers": layers * stages - 2,
        "hidden_size": hidden,
        "heads": heads,
        "vocabulary": 51_200,
        "sequence": 1024,
    }
    return read_cost_model(
        model,
        a100s(stages),
        {
            "micro_batch_size": batch,
            "micro_batches": micro_batches,
            "pipeline_parallel": stages,
            "interleaving": 1,
            "flash_attention": False,
            "offload": False,
        },
    )


def _passes() -> Iterator[Row]:
    for name, profiles in PROFILES.items():
        layers = SHAPES[name][-1]
        for stages, micro_batches, measured, _ in profiles:
            layer = profiled(name, stages, micro_batches).blocks.layer
            ours = (layer.forward_ns, layer.backward_input_ns, layer.backward_weight_ns)
            for kind, reference_us, ns in zip("FBW", measured, ours, strict=True):
                what = f"{name}, {micro_batches} micro-batches, {kind} of a stage"
                yield from with_why(
                    [Row(what, "ms", reference_us / 1e3, layers * ns / 1e6)],
                    "one share of the peak holds for all passes; measured, F takes longer per FLOP "
                    "than B and W",
                )


def _hops() -> Iterator[Row]:
    for name, profiles in PROFILES.items():
        for stages, micro_batches, _, hop_us in profiles:
            candidate, *_ = profiled(name, stages, micro_batches).candidates()
            ours_ns = statistics.mean(t.forward_ns[0] for t in candidate.problem.transfers)
            yield from with_why(
                [Row(f"{name}, {micro_batches} micro-batches", "us", hop_us, ours_ns / 1e3)],
                "measured, a hop moves 27 to 48 GB/s, whatever holds it up; ours is of the links "
                "alone, and a profile's `transfer_ns` says otherwise",
            )


def _vtrain() -> Iterator[Row]:
    for tensor, pipeline, size, ms in VTRAIN:
        costs = read_cost_model(
            {"preset": "GPT-3.6B", "sequence": 2048, "max_positions": 2048},
            a100s(64),
            {
                "micro_batch_size": size,
                "global_batch_size": 512,
                "tensor_parallel": tensor,
                "pipeline_parallel": pipeline,
                "interleaving": 1,
                "sequence_parallel": False,
                "recomputation": "full",
                "flash_attention": False,
                "offload": False,
            },
        )
        data = costs.training.degrees.data
        name = f"tensor {tensor}, pipeline {pipeline}, data {data}, micro-batch {size}"
        yield from with_why(
            [Row(name, "ms", ms, step(costs, 1).total_ns / 1e6)],
            "kernels on 2 x 2048 tokens over four GPUs are too short to fill them; launches are "
            "not modelled",
        )
