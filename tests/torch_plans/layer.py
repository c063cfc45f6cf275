"""A Transformer layer in plain PyTorch, operator by operator as the planner's graph has it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from planner.sharding.graph import Graph
from tests.torch_plans.executor import parameter_key
from tests.torch_plans.kinds import EPSILON


class PlainLayer(nn.Module):
    """Unsharded; `pre_norm` as GPT has it, otherwise as BERT. Queries of a group come before its
    key and value in the columns of the first projection."""

    def __init__(
        self, hidden: int, ffn: int, heads: int, kv_heads: int, *, pre_norm: bool, flash: bool
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, hidden // heads
        self.pre_norm, self.flash = pre_norm, flash
        self.ln1 = nn.LayerNorm(hidden, eps=EPSILON)
        self.qkv = nn.Linear(hidden, (heads + 2 * kv_heads) * self.size)
        self.proj = nn.Linear(hidden, hidden)
        self.ln2 = nn.LayerNorm(hidden, eps=EPSILON)
        self.fc1 = nn.Linear(hidden, ffn)
        self.fc2 = nn.Linear(ffn, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.pre_norm:
            x = x + self.attention(self.ln1(x))
            return x + self.fc2(functional.gelu(self.fc1(self.ln2(x))))
        x = self.ln1(x + self.attention(x))
        return self.ln2(x + self.fc2(functional.gelu(self.fc1(x))))

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        """From hidden states to what is added to them."""
        per_group = self.heads // self.kv_heads
        grouped = self.qkv(x).unflatten(2, (self.kv_heads, per_group + 2, self.size))
        query, key, value = grouped.split([per_group, 1, 1], dim=3)
        query, key, value = (each.flatten(2, 3).transpose(1, 2) for each in (query, key, value))
        if per_group > 1:
            key, value = (each.repeat_interleave(per_group, dim=1) for each in (key, value))
        if self.flash:
            context = functional.scaled_dot_product_attention(query, key, value)
        else:
            scores = torch.matmul(query * self.size**-0.5, key.transpose(2, 3))
            context = torch.matmul(torch.softmax(scores, dim=-1), value)
        return self.proj(context.transpose(1, 2).flatten(2, 3))

    def whole_parameters(self, graph: Graph) -> dict[str, nn.Parameter]:
        """By the graph's names. Weights are [output features, input features] here."""
        own = dict(self.named_parameters())
        return {
            parameter_key(operator, parameter): own[f"{operator.name}.{parameter.name}"]
            for operator in graph.operators
            for parameter in operator.parameters
        }


def as_in_graph(values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights as [input features, output features]."""
    return {key: value.detach().t() if value.dim() == 2 else value for key, value in values.items()}
