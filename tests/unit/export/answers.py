"""Small fixed answers of each kind, with the requests that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.export.format import Source

Document = dict[str, Any]
JOB = "01234567-89ab-cdef-0123-456789abcdef"
SERVICE = "https://plans.example"
MODEL = {
    "name": "Tiny",
    "layers": 8,
    "hidden_size": 256,
    "heads": 8,
    "kv_heads": 4,
    "ffn_hidden_size": 512,
    "gated": True,
    "vocabulary": 1024,
    "sequence": 128,
}
MOE = {**MODEL, "experts": 4, "experts_per_token": 2}
CLUSTER = "2x4xA100-40GB"
TRAINING = {
    "tensor_parallel": 2,
    "pipeline_parallel": 2,
    "data_parallel": 2,
    "micro_batches": 4,
    "interleaving": 1,
    "layers_per_stage": [4, 4],
    "zero_stage": 1,
    "recomputation": "selective",
}
SHAPES = {
    "one_chunk": lambda ranks: [*range(ranks)],
    "interleaved_2": lambda ranks: [*range(ranks)] * 2,
    "v_shape": lambda ranks: [*range(ranks), *reversed(range(ranks))],
}


def pipeline(
    training: Mapping[str, Any] = TRAINING,
    *,
    model: Mapping[str, Any] | str = MODEL,
    cluster: str = CLUSTER,
    shape: str = "one_chunk",
    offloads: int = 0,
    split: bool = True,
) -> Source:
    """A schedule, one operation after the other: all forwards, then all backwards. So many of the
    first stage's first micro-batches are offloaded."""
    request = {"model": model, "cluster": cluster, "training": dict(training)}
    devices = SHAPES[shape](training["pipeline_parallel"])
    answer = schedule(devices, training["micro_batches"], offloads, split=split)
    return Source("pipeline", answer, request, JOB, SERVICE)


def measured() -> Source:
    """The same of a posted problem, which says nothing of model and cluster."""
    answer = schedule([0, 1], 4, 0, split=True)
    return Source("pipeline", answer, {"problem": answer["problem"]}, JOB, SERVICE)


def schedule(devices: list[int], micro_batches: int, offloads: int, *, split: bool) -> Document:
    """The answer for stages on these devices."""
    order: list[tuple[str, int, int]] = []
    stages = range(len(devices))
    for number in range(micro_batches):
        order += (("F", stage, number) for stage in stages)
        if number < offloads:
            order.append(("O", 0, number))
    for number in range(micro_batches):
        if number < offloads:
            order.append(("R", 0, number))
        for stage in reversed(stages):
            order.append(("B", stage, number))
            if split:
                order.append(("W", stage, number))
    costs = {
        "forward_ns": 1000,
        "backward_input_ns": 1000,
        "backward_weight_ns": 1000 if split else 0,
        "activation_bytes": 64,
        "weight_grad_bytes": 32 if split else 0,
        "offload_bytes": 48,
        "offload_ns": 1000,
        "reload_ns": 1000,
    }
    ranks = max(devices) + 1
    return {
        "problem": {
            "micro_batches": micro_batches,
            "devices": [{"name": f"rank {rank}"} for rank in range(ranks)],
            "stages": [{"device": device, **costs} for device in devices],
            "transfers": [{}] * (len(devices) - 1),
        },
        "schedule": {
            "ops": [
                {
                    "op": op,
                    "stage": stage,
                    "micro_batch": number,
                    "start_ns": 1000 * place,
                    "end_ns": 1000 * (place + 1),
                }
                for place, (op, stage, number) in enumerate(order)
            ],
            "makespan_ns": 1000 * len(order),
            "steady_span_ns": 1000 * len(order),
            "peak_memory_bytes": [64 * micro_batches] * ranks,
            "lower_bound_ns": 0,
            "waits": [],
        },
        "certificate": {"objective": "makespan"},
        "provenance": {"placement": "one_chunk"},
    }


def training(
    chosen: Mapping[str, Any] = TRAINING,
    *,
    model: Mapping[str, Any] | str = MODEL,
    solved: bool = True,
    offload_share: float = 0.0,
) -> Source:
    """A training plan whose best plan has this training, with or without a schedule."""
    micro_batches = chosen["micro_batches"]
    document = {name: value for name, value in chosen.items() if name != "micro_batches"}
    size = chosen.get("micro_batch_size", 1) * micro_batches * chosen["data_parallel"]
    document["global_batch_size"] = size
    devices = SHAPES["one_chunk"](chosen["pipeline_parallel"])
    plan = {
        "rank": 1,
        "devices": 8,
        "tensor_parallel": chosen["tensor_parallel"],
        "pipeline_parallel": chosen["pipeline_parallel"],
        "data_parallel": chosen["data_parallel"],
        "micro_batches": micro_batches,
        "step_time_ns": 70,
        "offloading": {"share_by_rank": [offload_share, 0.0]} if offload_share else None,
    }
    answer = {
        "plans": [plan],
        "best": {
            "rank": 1,
            "training": document,
            "schedule": schedule(devices, micro_batches, 0, split=True) if solved else None,
            "sharding": group() if solved else None,
            "left_out": {} if solved else {"sharding": "Not solved yet."},
        },
        "provenance": {
            "request": {
                "model": model,
                "cluster": CLUSTER,
                "training": {"global_batch_size": size},
            }
        },
    }
    return Source("training", answer, None, JOB, SERVICE)


BY_COLUMNS_AND_ROWS = {
    "qkv": "d1-r1-c4",
    "attention": "d1-r1-c4",
    "proj": "d1-r4-c1",
    "fc1": "d1-r1-c4",
    "fc2": "d1-r4-c1",
}


SEQUENCE_PARALLEL = "d1-r2-c1"
"""Of operators between the tensor-parallel parts of a layer on two GPUs: rows of the sequence."""


def group() -> Document:
    """The sharding plan of a training plan's layer on two GPUs, split as Megatron-LM does."""
    split = {name: own.replace("4", "2") for name, own in BY_COLUMNS_AND_ROWS.items()}
    split |= dict.fromkeys(("split_heads", "merge_heads", "glu"), split["qkv"])
    kinds = {"ln1": "rms_norm", "ln2": "rms_norm", "add1": "add", "add2": "add", "x": "input"}
    linear = dict.fromkeys(("qkv", "proj", "fc1", "fc2"), "linear")
    order = (
        *("x", "ln1", "qkv", "split_heads", "attention", "merge_heads", "proj", "add1"),
        *("ln2", "fc1", "glu", "fc2", "add2"),
    )
    known = kinds | linear
    return {
        "plan": {
            "operators": [
                {
                    "name": name,
                    "kind": known.get(name, name),
                    "strategy": split.get(name, SEQUENCE_PARALLEL),
                }
                for name in order
            ]
        }
    }


def sharding(
    strategies: Mapping[str, str] = BY_COLUMNS_AND_ROWS, request: Mapping[str, Any] | None = None
) -> Source:
    """A sharding plan of a layer on four devices; other operators split the batch."""
    from planner.sharding.request import resolve_request

    body = request or {
        "transformer": {**MODEL, "layers": 2, "batch": 8, "embeddings": True},
        "devices": 4,
    }
    operators = [
        {"name": own.name, "kind": own.kind, "strategy": strategies.get(own.name, "d4-r1-c1")}
        for own in resolve_request(body).resolved.graph.operators
    ]
    return Source("sharding", {"plan": {"operators": operators}}, dict(body), JOB, SERVICE)


SOURCES = {"pipeline": pipeline, "training": training, "sharding": sharding}
