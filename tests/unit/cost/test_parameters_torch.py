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
    "Llama-2-7B",
    "Llama-3-8B",
    "Mixtral-8x7B",
    "BERT-Large",
)


def norm_of(model: Model) -> Any:
    if model.norm is Norm.LAYERNORM:
        return nn.LayerNorm(model.hidden_size)
    return nn.RMSNorm(model.hidden_size)


def expert_of(model: Model) -> Any:
    hidden, ffn = model.hidden_size, model.ffn_hidden_size
    first = [nn.Linear(hidden, ffn, bias=model.biases) for _ in range(2 if model.gated else 1)]
    return nn.ModuleList([*first, nn.Linear(ffn, hidden, bias=model.biases)])


def layer_of(model: Model) -> Any:
    hidden = model.hidden_size
    parts = [
        norm_of(model),
        nn.Linear(hidden, model.query_size, bias=model.qkv_bias),
        nn.Linear(hidden, model.key_value_size, bias=model.qkv_bias),
        nn.Linear(hidden, model.key_value_size, bias=model.qkv_bias),
        nn.Linear(model.query_size, hidden, bias=model.biases),
        norm_of(model),
        *(expert_of(model) for _ in range(model.experts)),
    ]
    if model.has_router:
        parts.append(nn.Linear(hidden, model.experts, bias=False))
    return nn.ModuleList(parts)


def transformer_of(model: Model) -> Any:
    word = nn.Embedding(model.vocabulary, model.hidden_size)
    head = nn.Linear(model.hidden_size, model.vocabulary, bias=False)
    if model.tied_embeddings:
        head.weight = word.weight
    parts = [word, *(layer_of(model) for _ in range(model.layers)), norm_of(model), head]
    if model.position_embeddings is PositionEmbeddings.LEARNED:
        parts.append(nn.Embedding(model.max_positions, model.hidden_size))
    return nn.ModuleList(parts)


@pytest.mark.parametrize("name", PRESETS)
def test_parameters_of_modules(name: str) -> None:
    model = read_model(name)
    with torch.device("meta"):
        transformer = transformer_of(model)
    # `parameters` gives a shared tensor once.
    total = sum(parameter.numel() for parameter in transformer.parameters())
    assert total == count_parameters(model).total
