"""Small modules to extract, made of fake tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from client.operator_graph.extraction import Extraction
from client.torch_extract.extraction import extract
from client.torch_extract.fakes import build_fake

Operator = dict[str, Any]


def extracted(make: Callable[[], tuple[nn.Module, Any]], **options: Any) -> Extraction:
    """What is extracted of a module made without memory."""
    module, inputs = build_fake(make)
    return extract(module, inputs, **options)


def operators(found: Extraction) -> dict[str, Operator]:
    """The graph's operators by name."""
    return {operator["name"]: operator for operator in found.graph["operators"]}


def kinds(found: Extraction) -> list[str]:
    """The kinds of the graph's operators in their order."""
    return [operator["kind"] for operator in found.graph["operators"]]


class Tied(nn.Module):
    """A loop over one layer between an embedding and an output layer with the same weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.layer = nn.Linear(8, 8)
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for _ in range(3):
            x = self.layer(x)
        return self.head(x)


class Gated(nn.Module):
    """A root-mean-square norm and a gated feed-forward, written out."""

    def __init__(self, width: int = 8, inner: int = 16) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.up = nn.Linear(width, 2 * inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        y = self.scale * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
        gate, up = self.up(y).chunk(2, dim=-1)
        return x + self.down(nn.functional.silu(gate) * up)


class Branch(nn.Module):
    """Decides by a value what runs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        if y.sum() > 0:
            return y
        return x


class Selection(Branch):
    """Gives as many rows as the data says."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        return y[y.sum(-1) > 0].sum()


class Number(Branch):
    """Multiplies by a number that it takes from a tensor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * x.max().item()


class FixedHeads(Branch):
    """Makes four heads, by their number or by their size."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).view(*x.shape[:2], self.heads, 2).transpose(1, 2)


class Inside(nn.Module):
    """Another module, below the path `inner`."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Crossing(nn.Module):
    """Attention of one sequence to another."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.attention(x, y, y, need_weights=False)[0]
