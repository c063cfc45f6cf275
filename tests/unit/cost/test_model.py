"""Model documents, presets and exact parameter counts."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost.model import Model, Norm, NormPlacement, PositionEmbeddings, read_model
from planner.cost.model_presets import MODEL_ALIASES, MODEL_PRESETS
from planner.cost.parameters import (
    count_parameters,
    embedding_shard,
    head_shard,
    layer_shard,
    vocabulary_shard,
)
from planner.errors import SpecError

PUBLISHED = {
    "GPT-2": 124_439_808,
    "GPT-2-XL": 1_557_611_200,
    "GPT-3-175B": 174_604_259_328,
    "GPT-1.5B": 1_522_409_472,
    "GPT-1.7B": 1_652_230_656,
    "GPT-3.6B": 3_559_022_592,
    "GPT-7.1B": 7_047_350_272,
    "GPT-7.5B": 7_467_786_240,
    "GPT-14.2B": 14_185_516_800,
    "Llama-2-7B": 6_738_415_616,
    "Llama-3-8B": 8_030_261_248,
    "Llama-3-70B": 70_553_706_496,
    "Llama-3-405B": 405_853_388_800,
    "Mixtral-8x7B": 46_702_792_704,
    # The checkpoint's 335,141,888 less segment embeddings (2 h) and pooler (h^2 + h).
    "BERT-Large": 335_141_888 - 2 * 1024 - 1024 * 1025,
}

QWEN_7B = {
    "layers": 28,
    "hidden_size": 3584,
    "heads": 28,
    "kv_heads": 4,
    "ffn_hidden_size": 18944,
    "gated": True,
    "vocabulary": 152064,
    "sequence": 4096,
    "qkv_bias": True,
}
LLAMA_3_2_1B = {
    "layers": 16,
    "hidden_size": 2048,
    "heads": 32,
    "kv_heads": 8,
    "ffn_hidden_size": 8192,
    "gated": True,
    "vocabulary": 128256,
    "sequence": 4096,
    "tied_embeddings": True,
}
SMALL = {"layers": 4, "hidden_size": 64, "heads": 4, "vocabulary": 1000, "sequence": 32}


def test_every_preset_has_a_published_count_and_a_source() -> None:
    assert set(PUBLISHED) == set(MODEL_PRESETS)
    assert all(preset.source for preset in MODEL_PRESETS.values())
    assert set(MODEL_ALIASES.values()) <= set(MODEL_PRESETS)


@pytest.mark.parametrize(("name", "total"), PUBLISHED.items())
def test_parameters_of_presets(name: str, total: int) -> None:
    assert count_parameters(read_model(name)).total == total


@pytest.mark.parametrize(
    ("fields", "total"),
    [
        (QWEN_7B, 7_615_616_512),
        (LLAMA_3_2_1B, 1_235_814_400),
        (
            {"preset": "Llama-2-7B", "kv_heads": 8, "ffn_hidden_size": 14336},
            7_241_732_096,  # Mistral-7B
        ),
        (
            {
                "preset": "Llama-2-7B",
                "layers": 80,
                "hidden_size": 8192,
                "heads": 64,
                "kv_heads": 8,
                "ffn_hidden_size": 28672,
            },
            68_976_648_192,  # Llama-2-70B
        ),
    ],
)
def test_parameters_of_documents(fields: dict[str, Any], total: int) -> None:
    assert count_parameters(read_model(fields)).total == total


def test_active_parameters_count_the_chosen_experts() -> None:
    counts = count_parameters(read_model("mixtral-8x7b"))
    assert counts.active == 12_879_925_248
    assert counts.layer - counts.active_layer == 6 * 3 * 4096 * 14336


def test_gpt_layer_has_twelve_h_squared_plus_thirteen_h() -> None:
    assert count_parameters(read_model("GPT-14.2B")).layer == 12 * 5520**2 + 13 * 5520


def test_a_bert_layer_and_where_its_outer_norm_is() -> None:
    model = read_model("bert-large-uncased")
    counts = count_parameters(model)
    assert counts.layer == 12_596_224
    assert counts.embedding == (30522 + 512 + 2) * 1024
    assert counts.head == 0
    assert embedding_shard(model, 2) == (30720 // 2 + 512 + 2) * 1024
    assert head_shard(model, 2, shares_embedding=True) == 0
    decoder = read_model({"preset": "BERT-Large", "architecture": "decoder"})
    counts = count_parameters(decoder)
    assert (counts.embedding, counts.head) == ((30522 + 512) * 1024, 2 * 1024)


def test_architecture_and_where_norms_are() -> None:
    def shown(**fields: Any) -> tuple[bool, NormPlacement]:
        model = read_model(SMALL | fields)
        return model.causal, model.norm_placement

    assert shown() == (True, NormPlacement.PRE)
    assert shown(architecture="decoder") == (True, NormPlacement.PRE)
    assert shown(architecture="encoder") == (False, NormPlacement.POST)
    assert shown(architecture="encoder", norm_placement="pre") == (False, NormPlacement.PRE)
    assert shown(norm_placement="post") == (True, NormPlacement.POST)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("1.7B", (24, 2304, 24)), ("3.6B", (30, 3072, 32)), ("7.5B", (36, 4096, 32))],
)
def test_megatron_models(name: str, sizes: tuple[int, int, int]) -> None:
    """Narayanan et al. 2021, table 1."""
    model = read_model(name)
    assert (model.layers, model.hidden_size, model.heads) == sizes
    assert model.vocabulary == 51200


@pytest.mark.parametrize("name", ["gpt-14.2b", "GPT 14.2B", "14.2B", "gpt_14.2b"])
def test_names_are_forgiving(name: str) -> None:
    assert read_model(name).name == "GPT-14.2B"


def test_gated_defaults() -> None:
    model = read_model(SMALL | {"gated": True, "ffn_hidden_size": 128})
    assert model.norm is Norm.RMSNORM
    assert model.position_embeddings is PositionEmbeddings.ROTARY
    assert not model.biases
    assert not model.qkv_bias
    assert not model.tied_embeddings
    assert not model.dropout


def test_ungated_defaults_and_overrides() -> None:
    model = read_model(SMALL)
    assert (model.norm, model.biases, model.kv_heads) == (Norm.LAYERNORM, True, 4)
    assert model.ffn_hidden_size == 256
    assert model.max_positions == 32
    changed = read_model(
        SMALL | {"norm": "rmsnorm", "biases": False, "position_embeddings": "none"}
    )
    assert (changed.norm, changed.qkv_bias, changed.max_positions) == (Norm.RMSNORM, False, 0)


def test_a_changed_preset_says_so() -> None:
    model = read_model({"preset": "GPT-2", "layers": 24})
    assert model.name == "GPT-2, changed"
    assert model.source is not None
    assert model.source.endswith("Changed: layers.")
    assert read_model({"preset": "GPT-2", "name": "mine"}).name == "mine"


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("tensor", [1, 2, 4, 8])
def test_shards_hold_the_whole_model(name: str, tensor: int) -> None:
    model = read_model(name)
    counts = count_parameters(model)
    assert layer_shard(model, tensor) * tensor >= counts.layer
    assert layer_shard(model, 1) == counts.layer
    assert vocabulary_shard(model, tensor) % 128 == 0
    assert embedding_shard(model, tensor) * tensor >= counts.embedding
    assert head_shard(model, tensor, shares_embedding=True) <= head_shard(
        model, tensor, shares_embedding=False
    )


def read(fields: Any) -> Model:
    return read_model(fields)


@pytest.mark.parametrize(
    ("fields", "path", "says"),
    [
        ("GPT-15B", ("model",), "Did you mean GPT-"),
        ("", ("model",), "Known: GPT-2"),
        ({"preset": "nothing like it"}, ("model", "preset"), "Known"),
        (7, ("model",), "preset's name or an object"),
        ({}, ("model", "layers"), "is required"),
        (SMALL | {"layers": 0}, ("model", "layers"), "greater than or equal to 1"),
        (SMALL | {"layers": 10**6}, ("model", "layers"), "less than or equal to 1024"),
        (SMALL | {"layers": float("nan")}, ("model", "layers"), "whole number"),
        (SMALL | {"layers": True}, ("model", "layers"), "whole number"),
        (SMALL | {"hidden": 3}, ("model", "hidden"), "not a known field"),
        (SMALL | {"norm": "batchnorm"}, ("model", "norm"), "layernorm"),
        (SMALL | {"norm_placement": "both"}, ("model", "norm_placement"), "'pre' or 'post'"),
        (SMALL | {"architecture": "both"}, ("model", "architecture"), "'decoder' or 'encoder'"),
        (SMALL | {"heads": 3}, ("model", "heads"), "does not divide hidden_size"),
        (SMALL | {"kv_heads": 3}, ("model", "kv_heads"), "does not divide heads"),
        (SMALL | {"gated": True}, ("model", "ffn_hidden_size"), "is required"),
        (SMALL | {"max_positions": 16}, ("model", "sequence"), "longer than the 16"),
        (
            SMALL | {"position_embeddings": "rotary", "max_positions": 16},
            ("model", "max_positions"),
            "no meaning",
        ),
        (SMALL | {"experts": 4}, ("model", "experts_per_token"), "is required"),
        (
            SMALL | {"experts": 4, "experts_per_token": 5},
            ("model", "experts_per_token"),
            "more than the 4",
        ),
    ],
)
def test_errors_name_the_field(fields: Any, path: tuple[str, ...], says: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(fields)
    assert caught.value.path == path
    assert says in str(caught.value)
