"""Model documents, presets and exact parameter counts."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.references import MEMORY_TEST_MODEL, PARAMETERS
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
from tests.unit.cost.checkpoints import CONFIGS, parameters

PUBLISHED = PARAMETERS | {
    "GPT-3-175B": 174_604_259_328,
    "GPT-1.5B": 1_522_409_472,
    "GPT-1.7B": 1_652_230_656,
    "GPT-3.6B": 3_559_022_592,
    "GPT-7.1B": 7_047_350_272,
    "GPT-7.5B": 7_467_786_240,
    "GPT-14.2B": 14_185_516_800,
    "Megatron-22B": 22_074_273_792,
    "Megatron-175B": 174_615_846_912,
    "Megatron-530B": 529_600_819_200,
    "Megatron-1T": 1_008_038_758_400,
}
SMALL = {"layers": 4, "hidden_size": 64, "heads": 4, "vocabulary": 1000, "sequence": 32}


def test_every_preset_has_a_published_count_and_a_source() -> None:
    assert set(PUBLISHED) == set(MODEL_PRESETS)
    assert all(preset.source for preset in MODEL_PRESETS.values())
    assert set(MODEL_ALIASES.values()) <= set(MODEL_PRESETS)


@pytest.mark.parametrize(("name", "total"), PUBLISHED.items())
def test_parameters_of_presets(name: str, total: int) -> None:
    assert count_parameters(read_model(name)).total == total


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_of_checkpoints(name: str) -> None:
    """By Hugging Face's name, tensor by tensor."""
    model = read_model(name)
    counts = count_parameters(model)
    whole = parameters(name)
    assert PUBLISHED[model.name] == counts.total == whole
    first_layer = max(
        parameters(name, prefix)
        for prefix in ("transformer.h.0.", "encoder.layer.0.", "model.layers.0.")
    )
    assert counts.layer == first_layer
    embeddings = ("transformer.wte", "transformer.wpe", "embeddings.", "model.embed_tokens")
    assert counts.embedding == sum(parameters(name, prefix) for prefix in embeddings)
    heads = ("transformer.ln_f", "pooler.", "model.norm", "lm_head")
    assert counts.head == sum(parameters(name, prefix) for prefix in heads)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("Megatron-22B", (48, 6144, 64)),
        ("Megatron-175B", (96, 12288, 96)),
        ("Megatron-530B", (105, 20480, 128)),
        ("Megatron-1T", (128, 25600, 160)),
    ],
)
def test_models_of_korthikanti_et_al(name: str, sizes: tuple[int, int, int]) -> None:
    """Table 3. Narayanan et al. 2021, equation 2: 12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h)), to
    which two vectors of the final norm come."""
    model = read_model(name)
    layers, hidden, _ = sizes
    assert (model.layers, model.hidden_size, model.heads) == sizes
    assert (model.vocabulary, model.sequence, model.max_positions) == (51200, 2048, 2048)
    parameters_2 = 12 * layers * hidden**2 + 13 * layers * hidden + (51200 + 2048) * hidden
    assert count_parameters(model).total == parameters_2 + 2 * hidden


def test_bytes_of_parameters_against_megatrons_memory_test() -> None:
    """Allocated between iterations with 4 tensor and 2 data ranks and the distributed optimizer:
    bf16 with fp32 gradients takes 6 + 12/2 bytes, and 20,634,103,808 were measured on A100s."""
    model = read_model(MEMORY_TEST_MODEL)
    assert count_parameters(model).total == 6_745_964_544
    held = model.layers * layer_shard(model, 4).total
    held += embedding_shard(model, 4) + head_shard(model, 4, shares_embedding=True)
    assert held * (6 + 12 // 2) == pytest.approx(20_634_103_808, rel=0.004)


def test_active_parameters_count_the_chosen_experts() -> None:
    counts = count_parameters(read_model("mixtral-8x7b"))
    assert counts.active == 12_879_925_248
    assert counts.layer - counts.active_layer == 6 * 3 * 4096 * 14336


def test_gpt_layer_has_twelve_h_squared_plus_thirteen_h() -> None:
    assert count_parameters(read_model("GPT-14.2B")).layer == 12 * 5520**2 + 13 * 5520


def test_a_bert_layer_and_where_its_outer_norm_is() -> None:
    model = read_model("bert-large-uncased")
    counts = count_parameters(model)
    pooler = 1024 * 1024 + 1024
    assert counts.layer == 12_596_224
    assert counts.embedding == (30522 + 512 + 2 + 2) * 1024
    assert counts.head == pooler
    assert embedding_shard(model, 2) == (30720 // 2 + 512 + 2 + 2) * 1024
    assert head_shard(model, 2, shares_embedding=True) == pooler
    assert head_shard(model, 2, shares_embedding=False) == pooler + 30720 // 2 * 1024
    decoder = read_model({"preset": "BERT-Large", "architecture": "decoder"})
    counts = count_parameters(decoder)
    assert (counts.embedding, counts.head) == ((30522 + 512 + 2) * 1024, 2 * 1024 + pooler)
    plain = count_parameters(
        read_model({"preset": "BERT-Large", "token_types": 0, "pooler": False})
    )
    assert plain.total == 335_141_888 - 2 * 1024 - pooler
    assert count_parameters(read_model({"preset": "BERT-Large", "biases": False})).head == 1024**2


@pytest.mark.parametrize(("fields", "weights"), [({}, 2 * 128), ({"norm": "layernorm"}, 4 * 128)])
def test_norms_of_queries_and_keys_are_on_every_rank(fields: dict[str, Any], weights: int) -> None:
    with_norms = read_model({"preset": "Qwen3-8B"} | fields)
    without = read_model({"preset": "Qwen3-8B", "qk_norm": False} | fields)
    for tensor in (1, 2, 8):
        difference = layer_shard(with_norms, tensor).total - layer_shard(without, tensor).total
        assert difference == weights


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


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("openai-community/gpt2", "GPT-2"),
        ("openai-community/gpt2-xl", "GPT-2-XL"),
        ("google-bert/bert-base-uncased", "BERT-Base"),
        ("meta-llama/Llama-2-13b-hf", "Llama-2-13B"),
        ("meta-llama/Meta-Llama-3-8B", "Llama-3-8B"),
        ("meta-llama/Llama-3.1-405B", "Llama-3-405B"),
        ("mistralai/Mixtral-8x7B-v0.1", "Mixtral-8x7B"),
        ("Qwen/Qwen2.5-7B", "Qwen2.5-7B"),
        ("Qwen/Qwen3-8B", "Qwen3-8B"),
        ("somebody/else/Qwen3-8B", "Qwen3-8B"),
    ],
)
def test_names_may_have_an_organisation(name: str, preset: str) -> None:
    assert read_model(name).name == preset
    with pytest.raises(SpecError, match="no model preset"):
        read_model(f"{name}/")


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
    assert layer_shard(model, tensor).total * tensor >= counts.layer
    assert layer_shard(model, 1).total == counts.layer
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
        ("Qwen/Qwen3-9B", ("model",), "'Qwen/Qwen3-9B'. Did you mean Qwen3-8B"),
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
        (SMALL | {"qk_norm": 1}, ("model", "qk_norm"), "true or false"),
        (SMALL | {"token_types": -1}, ("model", "token_types"), "greater than or equal to 0"),
        (SMALL | {"pooler": "yes"}, ("model", "pooler"), "true or false"),
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
