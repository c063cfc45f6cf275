"""A profile runs what it says it runs: gradients are those of the whole model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from client.errors import InputError
from client.torch_profile.splits import Split
from tests.unit.client.torch_profile.tiny import TINY_PIPELINE

pytestmark = pytest.mark.torch


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pytest.importorskip("torch")
    path = tmp_path / "tiny_pipeline.py"
    path.write_text(TINY_PIPELINE)
    return path


def _load(target: str, stages: int) -> Any:
    import torch

    from client.torch_profile.pipeline import load_pipeline

    return load_pipeline(target, stages, torch.device("cpu"))


@pytest.mark.parametrize("split", list(Split))
def test_gradients_are_the_models(file: Path, split: Split) -> None:
    import torch

    from client.torch_profile.observers import run_only
    from client.torch_profile.operations import stages_of
    from client.torch_profile.passes import run_micro_batch

    whole = _load(f"{file}:stages", 3)
    output = whole.micro_batch[0]
    for module in whole.stages:
        output = module(output)
    whole.loss(output).backward()

    pipeline = _load(f"{file}:stages", 3)
    run_micro_batch(stages_of(pipeline, split), pipeline.micro_batch, run_only)
    for module, expected in zip(pipeline.stages, whole.stages, strict=True):
        for found, known in zip(module.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(found.grad, known.grad)


def test_a_stage_without_work_for_w_is_fused(file: Path) -> None:
    from client.torch_profile.measure import measure

    measured = measure(_load(f"{file}:activations_only", 3), Split.DEFERRED, repeat=2, threads=1)
    assert [stage.split for stage in measured.stages] == [
        Split.DEFERRED,
        Split.FUSED,
        Split.DEFERRED,
    ]
    assert measured.stages[1].weight is None
    # GELU saves what is received and tanh what is sent; between the two nothing is kept.
    assert measured.stages[1].activation_bytes == 0
    assert measured.stages[1].border_bytes == 4 * (4 * 8 * 4)
    assert [len(stage.forward.time.samples_ns) for stage in measured.stages] == [2, 2, 2]
    assert measured.transfers[0].forward_bytes == 4 * 8 * 4


def test_a_sequential_is_cut_into_parts_of_as_many_modules(file: Path) -> None:
    assert [len(stage) for stage in _load(f"{file}:transformer", 3).stages] == [3, 3, 2]


@pytest.mark.parametrize(
    ("name", "stages", "words"),
    [
        ("broken", 1, "returned an object of type Linear"),
        ("no_tensor", 1, "of type str as micro-batch"),
        ("no_loss", 1, "of type float as loss"),
        ("absent", 1, "no function 'absent'"),
        ("transformer", 9, "more than the 8 modules"),
        ("stages", 2, "not the number of stages"),
    ],
)
def test_what_a_factory_returns_is_checked(file: Path, name: str, stages: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        _load(f"{file}:{name}", stages)
