"""Parameter counts against modules built with PyTorch, without allocating them."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost.model import Model, Norm, PositionEmbeddings, read_model
from planner.cost.parameters import count_parameters

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = pytest.mark.torch

# Presets of few layers keep the number of modules small; sizes do not matter on the meta device.
PRESETS = (
    "GPT-2",
    "GPT-2-XL",
    "GPT-1.5B",
    "GPT-3.6B",
    "GPT-7.1B",
    "GPT-14.2B",
    "Megatron-22B",
    "Llama-2-7B",
    "Llama-2-13B",
    "Llama-3-8B",
    "Llama-3.2-1B",
    "Mistral-7B",
    "Mixtral-8x7B",
    "Qwen2.5-0.5B",
    "Qwen2.5-7B",
    "Qwen3-8B",
    "BERT-Base",
    "BERT-Large",
)


def norm_of(model: Model, width: int) -> Any:
    return nn.LayerNorm(width) if model.norm is Norm.LAYERNORM else nn.RMSNorm(width)


def expert_of(model: Model) -> Any:
    hidden, ffn = model.hidden_size, model.ffn_hidden_size
    first = [nn.Linear(hidden, ffn, bias=model.biases) for _ in range(2 if model.gated else 1)]
    return nn.ModuleList([*first, nn.Linear(ffn, hidden, bias=model.biases)])


def layer_of(model: Model) -> Any:
    hidden = model.hidden_size
    parts = [
        norm_of(model, hidden),
        nn.Linear(hidden, model.query_size, bias=model.qkv_bias),
        nn.Linear(hidden, model.key_value_size, bias=model.qkv_bias),
        nn.Linear(hidden, model.key_value_size, bias=model.qkv_bias),
        nn.Linear(model.query_size, hidden, bias=model.biases),
        norm_of(model, hidden),
        *(expert_of(model) for _ in range(model.experts)),
    ]
    if model.qk_norm:
        parts += [norm_of(model, model.head_dim) for _ in ("queries", "keys")]
    if model.has_router:
        parts.append(nn.Linear(hidden, model.experts, bias=False))
    return nn.ModuleList(parts)


def transformer_of(model: Model) -> Any:
    hidden = model.hidden_size
    word = nn.Embedding(model.vocabulary, hidden)
    head = nn.Linear(hidden, model.vocabulary, bias=False)
    if model.tied_embeddings:
        head.weight = word.weight
    parts = [word, *(layer_of(model) for _ in range(model.layers)), norm_of(model, hidden), head]
    if model.position_embeddings is PositionEmbeddings.LEARNED:
        parts.append(nn.Embedding(model.max_positions, hidden))
    parts.append(nn.Embedding(model.token_types, hidden))
    if model.pooler:
        parts.append(nn.Linear(hidden, hidden, bias=model.biases))
    return nn.ModuleList(parts)


@pytest.mark.parametrize("name", PRESETS)
def test_parameters_of_modules(name: str) -> None:
    model = read_model(name)
    with torch.device("meta"):
        transformer = transformer_of(model)
    # `parameters` gives a shared tensor once.
    total = sum(parameter.numel() for parameter in transformer.parameters())
    assert total == count_parameters(model).total
