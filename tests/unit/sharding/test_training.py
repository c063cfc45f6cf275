"""Training documents of sharding plans."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost.memory import StateBytes, state_bytes
from planner.errors import SpecError
from planner.sharding.training import ShardingTraining, read_sharding_training


def test_defaults() -> None:
    assert read_sharding_training({}) == ShardingTraining(
        precision="bf16",
        gradient_precision="fp32",
        optimizer="adam",
        zero_stage=0,
        micro_batches=1,
        flash_attention=True,
        sequence_parallel=False,
        dropout=False,
    )


@pytest.mark.parametrize(
    ("fields", "states"),
    [
        ({}, StateBytes(2, 4, 12)),
        ({"gradient_precision": "same"}, StateBytes(2, 2, 12)),
        ({"precision": "fp16"}, StateBytes(2, 2, 16)),
        ({"precision": "fp32"}, StateBytes(4, 4, 8)),
        ({"precision": "fp32", "optimizer": "sgd_momentum"}, StateBytes(4, 4, 4)),
        ({"precision": "fp32", "optimizer": "sgd"}, StateBytes(4, 4, 0)),
    ],
)
def test_bytes_per_parameter(fields: dict[str, Any], states: StateBytes) -> None:
    training = read_sharding_training(fields)
    assert training.state_bytes == states
    assert training.state_bytes == state_bytes(
        training.precision, training.gradient_precision, training.optimizer
    )


def test_every_field_is_read() -> None:
    fields = {
        "precision": "fp16",
        "gradient_precision": "same",
        "optimizer": "sgd",
        "zero_stage": 3.0,
        "micro_batches": 1e2,
        "flash_attention": False,
        "sequence_parallel": True,
        "dropout": True,
    }
    training = read_sharding_training(fields)
    assert {name: getattr(training, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("raw", "path", "says"),
    [
        (None, ("training",), "must be an object. Leave it out"),
        ("bf16", ("training",), "must be an object"),
        ({"precision": "fp8"}, ("training", "precision"), "'bf16', 'fp16' or 'fp32'"),
        ({"optimizer": "lion"}, ("training", "optimizer"), "'adam'"),
        ({"zero_stage": 4}, ("training", "zero_stage"), "less than or equal to 3"),
        ({"zero_stage": True}, ("training", "zero_stage"), "whole number"),
        ({"micro_batches": 0}, ("training", "micro_batches"), "greater than or equal to 1"),
        ({"micro_batches": 10**6}, ("training", "micro_batches"), "less than or equal to"),
        ({"flash_attention": 1}, ("training", "flash_attention"), "true or false"),
        ({"zero": 1}, ("training", "zero"), "not a known field"),
    ],
)
def test_errors_name_the_field(raw: Any, path: tuple[str, ...], says: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_sharding_training(raw)
    assert caught.value.path == path
    assert says in str(caught.value)
    assert caught.value.remedy
