"""Configurations of Hugging Face give the presets' models."""

from __future__ import annotations

from typing import Any

import pytest

from client.errors import InputError
from client.importers.hugging_face import from_hf_config
from planner.cost.model import Model, read_model
from planner.cost.parameters import count_parameters
from planner.cost.spec import read_cost_model
from tests.unit.client.importers.configurations import CONFIGURATIONS, GPT_NEOX_20B


def imported(config: dict[str, Any], **changes: Any) -> Model:
    return read_model(from_hf_config(config | changes).document["model"])


@pytest.mark.parametrize("preset", CONFIGURATIONS)
def test_a_published_configuration_is_the_preset(preset: str) -> None:
    found, known = imported(CONFIGURATIONS[preset]), read_model(preset)
    assert count_parameters(found) == count_parameters(known)
    # The longest sequence is the model's limit, which need not be the preset's training length.
    not_compared = {"name", "source", "sequence"}
    for field in Model.__slots__:
        if field not in not_compared:
            assert getattr(found, field) == getattr(known, field), field


def test_gpt_neox_has_as_many_parameters_as_published() -> None:
    """20,554,567,680 according to its model card."""
    assert count_parameters(imported(GPT_NEOX_20B)).total == 20_554_567_680


def test_head_sizes_of_their_own_are_kept() -> None:
    """Mistral-Nemo-12B has 32 heads of 128 for a hidden size of 5120."""
    model = imported(CONFIGURATIONS["Mistral-7B"], hidden_size=5120, head_dim=128)
    assert (model.head_dim, model.query_size) == (128, 4096)
    assert imported(CONFIGURATIONS["Qwen3-8B"], hidden_size=2560, head_dim=None).head_dim == 128


def test_biases_of_both_kinds_are_biases() -> None:
    assert imported(CONFIGURATIONS["Llama-3-8B"], attention_bias=True, mlp_bias=True).biases


def test_the_rest_of_the_request_follows() -> None:
    """With a cluster and micro-batches beside it the document is a request."""
    result = from_hf_config(CONFIGURATIONS["Llama-3-8B"])
    assert result.document["training"] == {"precision": "bf16"}
    training = result.document["training"] | {"micro_batches": 8}
    costs = read_cost_model(result.document["model"], "8xH100-80GB", training)
    assert costs.model.sequence == 8192
    assert any("cluster" in note for note in result.notes)


@pytest.mark.parametrize(
    ("config", "path", "words"),
    [
        ({"model_type": "mamba"}, "model_type", "Known: bert, gpt2"),
        ({}, "model_type", "is missing"),
        (CONFIGURATIONS["GPT-2"] | {"activation_function": "siren"}, "activation_function", "said"),
        (CONFIGURATIONS["Llama-3-8B"] | {"attention_bias": True}, "attention_bias", "other"),
        (CONFIGURATIONS["Llama-3-8B"] | {"hidden_size": None}, "hidden_size", "is missing"),
        (CONFIGURATIONS["Llama-3-8B"] | {"hidden_size": "4096"}, "hidden_size", "whole number"),
        (GPT_NEOX_20B | {"attention_bias": False}, "attention_bias", "qkv_bias"),
        (CONFIGURATIONS["BERT-Base"] | {"is_decoder": True}, "is_decoder", "encoder"),
    ],
)
def test_what_cannot_be_imported_is_refused(config: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        from_hf_config(config)
    assert refused.value.path == path
    assert refused.value.remedy


def test_what_is_left_out_is_said() -> None:
    assert any("window" in note for note in from_hf_config(CONFIGURATIONS["Mistral-7B"]).notes)
    assert not any("window" in note for note in from_hf_config(CONFIGURATIONS["Qwen2.5-7B"]).notes)
