"""Training documents: defaults, degrees and every error."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost.hardware import read_cluster
from planner.cost.model import read_model
from planner.cost.training import Training, read_training
from planner.errors import SpecError

MODEL = read_model("GPT-14.2B")


def read(
    fields: Any, cluster: str = "8xA100-40GB", model: str | dict[str, Any] = "GPT-14.2B"
) -> Training:
    return read_training(fields, read_model(model), read_cluster(cluster))


def degrees(fields: dict[str, Any], cluster: str) -> tuple[int, int, int]:
    found = read({"micro_batches": 8} | fields, cluster, "GPT-3.6B").degrees
    return found.pipeline, found.tensor, found.data


def test_defaults() -> None:
    training = read({"micro_batches": 32})
    assert training.degrees.gpus == 8
    assert training.micro_batch_size == 1
    assert training.sequence == 1024
    assert training.flash_attention
    assert training.split_backward
    assert training.offload
    assert not training.sequence_parallel
    assert training.element_bytes == 2


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (8, 1, 1)),
        ({"tensor_parallel": 2}, (4, 2, 1)),
        ({"data_parallel": 2}, (4, 1, 2)),
        ({"pipeline_parallel": 2}, (2, 1, 4)),
        ({"pipeline_parallel": 2, "tensor_parallel": 4}, (2, 4, 1)),
        ({"pipeline_parallel": 4, "data_parallel": 1}, (4, 1, 1)),
    ],
)
def test_missing_degrees(fields: dict[str, Any], expected: tuple[int, int, int]) -> None:
    assert degrees(fields, "8xA100-40GB") == expected


def test_global_batch_size() -> None:
    training = read(
        {
            "global_batch_size": 64,
            "micro_batch_size": 2,
            "pipeline_parallel": 4,
            "data_parallel": 2,
        }
    )
    assert training.micro_batches == 16
    assert training.global_batch_size == 64


def test_full_recomputation_fuses_the_backward_unless_told() -> None:
    full = {"micro_batches": 8, "recomputation": "full"}
    assert not read(full).split_backward
    assert read(full | {"split_backward": True}).split_backward


def test_sequence_parallelism_comes_with_tensor_parallelism() -> None:
    fields = {"micro_batches": 8, "tensor_parallel": 2}
    assert read(fields).sequence_parallel
    assert not read(fields | {"sequence_parallel": False}).sequence_parallel
    assert not read(fields | {"sequence": 1023}).sequence_parallel


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ([], None, "must be an object"),
        ({}, "micro_batches", "or `global_batch_size`"),
        ({"micro_batches": 0}, "micro_batches", "greater"),
        ({"micro_batches": 1e9}, "micro_batches", "at most 100000"),
        ({"micro_batches": float("nan")}, "micro_batches", "whole number"),
        ({"micro_batches": 8, "precision": "fp8"}, "precision", "bf16"),
        ({"micro_batches": 8, "zero_stage": 4}, "zero_stage", "less than or equal to 3"),
        ({"micro_batches": 8, "batch": 3}, "batch", "not a known field"),
        ({"micro_batches": 8, "sequence": 2048}, "sequence", "longer than the model's 1024"),
        (
            {"global_batch_size": 10, "pipeline_parallel": 4, "data_parallel": 2}
            | {"micro_batch_size": 4},
            "global_batch_size",
            "The nearest multiple is 8",
        ),
        ({"global_batch_size": 8, "micro_batches": 4}, "micro_batches", "contradicts"),
        ({"micro_batches": 8, "tensor_parallel": 4}, "tensor_parallel", "attention heads (46)"),
        (
            {"micro_batches": 8, "pipeline_parallel": 16, "data_parallel": 1},
            "pipeline_parallel",
            "the cluster has 8 GPUs, the degrees ask for 16",
        ),
        ({"micro_batches": 8, "pipeline_parallel": 16}, "tensor_parallel", "ask for 16"),
        ({"micro_batches": 8, "data_parallel": 3}, "tensor_parallel", "does not divide the 8"),
        (
            {"micro_batches": 8, "tensor_parallel": 2, "sequence": 1023}
            | {"sequence_parallel": True},
            "sequence_parallel",
            "1023 over 2",
        ),
        ({"micro_batches": 8, "profile": {"layer": {"f": 1}}}, "profile", "not a known field"),
    ],
)
def test_errors_name_the_field(fields: Any, field: str | None, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(fields)
    assert caught.value.path[:2] == (("training",) if field is None else ("training", field))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "cluster", "model", "says"),
    [
        ({"micro_batches": 8}, "8xV100", "GPT-2", "has no bf16"),
        ({"micro_batches": 8}, "2x8xH100", "GPT-2", "16 stages for 12 layers"),
        (
            {"micro_batches": 8, "pipeline_parallel": 13, "data_parallel": 1},
            "2x8xH100",
            "GPT-2",
            "13 stages need at least as many layers",
        ),
        (
            {"micro_batches": 8, "tensor_parallel": 16},
            "2x16xH100",
            "Llama-3-8B",
            "key/value heads (8)",
        ),
        (
            {"micro_batches": 8, "tensor_parallel": 8},
            "4x4xH100",
            "Llama-3-8B",
            "does not divide the 4 GPUs of a node",
        ),
    ],
)
def test_errors_of_model_and_cluster(
    fields: dict[str, Any], cluster: str, model: str, says: str
) -> None:
    with pytest.raises(SpecError) as caught:
        read(fields, cluster, model)
    assert says in str(caught.value)
    assert caught.value.path[0] == "training"
    assert caught.value.remedy
