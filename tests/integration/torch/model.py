"""A small Transformer cut into stages, and one batch for it. Needs nothing but PyTorch."""

from functools import cache

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, LENGTH, VOCABULARY = 16, 2, 6, 11
SIZE = 2
"""Of a micro-batch."""
MICRO_BATCHES = 8
UNEVEN = (1, 2, 1, 1, 2, 1)
"""Blocks of stages that differ."""


class Block(nn.Module):
    def __init__(self, width) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        width = x.size(-1)
        heads = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, width // HEADS))
        query, key, value = (each.squeeze(2).transpose(1, 2) for each in heads.split(1, dim=2))
        scores = torch.softmax(query @ key.transpose(2, 3) / width**0.5, dim=-1)
        x = x + self.proj((scores @ value).transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


def build(layers, width=WIDTH):
    """A module per stage of so many blocks, the same in every process, in float64."""
    torch.manual_seed(7)
    torch.set_default_dtype(torch.float64)
    stages = [nn.Sequential(*(Block(width) for _ in range(count))) for count in layers]
    stages[0].insert(0, nn.Embedding(VOCABULARY, width))
    stages[-1].append(nn.Linear(width, VOCABULARY))
    return stages


@cache
def batch(micro_batches=MICRO_BATCHES, length=LENGTH):
    """Tokens and targets of a whole batch."""
    generator = torch.Generator().manual_seed(3)
    shape = (SIZE * micro_batches, length)
    return tuple(torch.randint(VOCABULARY, shape, generator=generator) for _ in range(2))


def loss(output, target):
    """Of one micro-batch."""
    return functional.cross_entropy(output.flatten(0, 1), target.flatten())


@cache
def reference(layers, micro_batches=MICRO_BATCHES):
    """Losses per micro-batch, and the gradients of each stage, without a pipeline."""
    stages = build(layers)
    tokens, targets = batch(micro_batches)
    losses = []
    for x, y in zip(tokens.chunk(micro_batches), targets.chunk(micro_batches), strict=True):
        for stage in stages:
            x = stage(x)
        losses.append(loss(x, y))
    (sum(losses) / micro_batches).backward()
    gradients = [[parameter.grad for parameter in stage.parameters()] for stage in stages]
    return [own.item() for own in losses], gradients


def profiled():
    """What `loadmaster profile` takes: eight stages, a micro-batch and the loss."""
    return _profiled([1] * 8)


def profiled_pairs():
    """The same of four stages of two blocks each."""
    return _profiled([2] * 4)


def profiled_uneven():
    """The same of six stages, two of them larger."""
    return _profiled(UNEVEN)


def profiled_wide():
    """The same of four stages that products take the time of."""
    return _profiled([2] * 4, 16 * WIDTH, 16 * LENGTH)


def _profiled(layers, width=WIDTH, length=LENGTH):
    stages = build(layers, width)
    tokens, targets = batch(1, length)
    return stages, tokens, lambda output: loss(output, targets)
