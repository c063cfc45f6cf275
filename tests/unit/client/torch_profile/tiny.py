"""A transformer small enough to be profiled in a moment, as a user's file would define it."""

from __future__ import annotations

TINY_PIPELINE = """
import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention

WIDTH, HEADS, WORDS, SAMPLES, TOKENS = 32, 2, 64, 2, 16


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.second_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        samples, tokens, width = x.shape
        heads = self.qkv(self.norm(x)).view(samples, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(samples, tokens, width))
        return x + self.down(gelu(self.up(self.second_norm(x))))


def transformer():
    torch.manual_seed(1)
    layers = [nn.Embedding(WORDS, WIDTH), *(Layer() for _ in range(6)), nn.Linear(WIDTH, WORDS)]
    tokens, targets = torch.randint(WORDS, (2, SAMPLES, TOKENS))
    model = nn.Sequential(*layers)
    return model, tokens, lambda y: cross_entropy(y.flatten(0, 1), targets.flatten())


def stages():
    model, tokens, loss = transformer()
    return [model[:3], model[3:6], model[6:]], (tokens,), loss


def activations_only():
    x = torch.ones(4, 8)
    return [nn.Linear(8, 8), nn.Sequential(nn.GELU(), nn.Tanh()), nn.Linear(8, 1)], x, torch.sum


def broken():
    return nn.Linear(2, 2)


def no_tensor():
    return [nn.Linear(2, 2)], "text", torch.sum


def no_loss():
    return [nn.Linear(2, 2)], torch.ones(2, 2), 1.0
"""
