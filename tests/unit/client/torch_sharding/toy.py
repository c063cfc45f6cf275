"""A transformer layer of PyTorch modules named as in OPT, and processes that run it split.

As models of transformers do, it makes tensors of its own while it runs, works out angles of
positions from a buffer, and has weights that no plan knows.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from client.torch_sharding import apply_plan, device_mesh

HIDDEN, HEADS, FEED_FORWARD, BATCH, SEQUENCE = 16, 4, 32, 4, 6
Results = dict[str, torch.Tensor]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            self.add_module(name, nn.Linear(HIDDEN, HIDDEN))

    def forward(self, x: torch.Tensor, angles: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        parts = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        heads = (part.view(*part.shape[:2], HEADS, -1).transpose(1, 2) for part in parts)
        query, key, value = heads
        query, key = query * angles.cos(), key * angles.sin()
        if self.training:
            mixed = nn.functional.scaled_dot_product_attention(query, key, value, mask)
        else:
            scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
            shares = scores.masked_fill(~mask, -torch.inf).softmax(-1)
            mixed = torch.matmul(input=shares, other=value)
        return self.out_proj(mixed.transpose(1, 2).reshape(*x.shape[:2], HIDDEN))


class Gain(nn.Module):
    """Weights that are in no plan, for which a model may use any of PyTorch's operators."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, HIDDEN))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert type(x) is torch.Tensor
        assert x.shape == (BATCH, SEQUENCE, HIDDEN)
        return x * self.weight


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn = Attention()
        self.self_attn_layer_norm = nn.LayerNorm(HIDDEN)
        self.final_layer_norm = nn.LayerNorm(HIDDEN)
        self.fc1 = nn.Linear(HIDDEN, FEED_FORWARD)
        self.fc2 = nn.Linear(FEED_FORWARD, HIDDEN)

    def forward(self, x: torch.Tensor, angles: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.self_attn_layer_norm(x), angles, mask)
        return x + self.fc2(nn.functional.gelu(self.fc1(self.final_layer_norm(x))))


class Toy(nn.Module):
    """`model.decoder.layers.0` is the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Module()
        self.model.decoder = nn.Module()
        self.model.decoder.layers = nn.ModuleList([Layer()])
        self.gain = Gain()
        self.register_buffer("frequencies", torch.linspace(0.1, 1.0, HIDDEN // HEADS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(x.shape[1], dtype=torch.float64)[None, None, :, None]
        angles = positions * self.frequencies
        mask = torch.ones(x.shape[0], 1, x.shape[1], x.shape[1], dtype=torch.bool).tril()
        return self.gain(self.model.decoder.layers[0](x, angles, mask))


class Fused(nn.Module):
    """A gated feed-forward whose two projections are one, as in Phi-3."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_up = nn.Linear(HIDDEN, 2 * FEED_FORWARD)
        self.down = nn.Linear(FEED_FORWARD, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return x + self.down(nn.functional.silu(gate) * up)


class Written(Toy):
    """With attention written out."""

    def train(self, mode: bool = True) -> Written:
        super().train(False)
        return self


MODELS: dict[str, type[nn.Module]] = {"layer": Toy, "written": Written, "fused": Fused}


def make(kind: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """The same model, input and output gradient in every process."""
    torch.manual_seed(0)
    model = MODELS[kind]().to(torch.float64).train()
    shape = (BATCH, SEQUENCE, HIDDEN)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    return model, x, torch.randn(shape, dtype=torch.float64)


def whole(tensor: Any) -> torch.Tensor:
    """All of a tensor, however it is split."""
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach().clone()


def results(model: nn.Module, x: torch.Tensor, output_gradient: torch.Tensor) -> Results:
    """The output and every gradient after two passes, whose gradients add up."""
    for _ in range(2):
        y = model(x)
        if hasattr(y, "placements"):
            from torch.distributed.tensor import distribute_tensor

            y.backward(distribute_tensor(output_gradient, y.device_mesh, y.placements))
        else:
            y.backward(output_gradient)
    gradients = {name: whole(parameter.grad) for name, parameter in model.named_parameters()}
    return {"output": whole(y), "input": whole(x.grad), **gradients}


def run(rank: int, processes: int, folder: str, plans: dict[str, tuple[str, str]]) -> None:
    """One process: each plan of a model in turn. What differs from the whole, and the sizes of
    weights' parts, go to a file."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=processes,
        timeout=timedelta(seconds=60),
    )
    found = {}
    for name, (kind, text) in plans.items():
        plan = json.loads(text)
        expected = results(*make(kind))
        model, x, output_gradient = make(kind)
        apply_plan(model, plan, device_mesh(plan, "cpu"))
        got = results(model, x, output_gradient)
        layer = model.model.decoder.layers[0] if isinstance(model, Toy) else model
        found[name] = {
            "differences": {key: float((got[key] - expected[key]).abs().max()) for key in expected},
            "parts": {
                key: list(parameter.to_local().shape) for key, parameter in layer.named_parameters()
            },
            "gradients": {
                key: list(parameter.grad.to_local().shape)
                for key, parameter in layer.named_parameters()
            },
        }
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()
