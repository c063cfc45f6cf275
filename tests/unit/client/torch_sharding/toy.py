"""A transformer layer of PyTorch modules named as in OPT, and processes that run it split."""

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
ATTENTION = "model.decoder.layers.*.self_attn.core"
Results = dict[str, torch.Tensor]


class Core(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            self.add_module(name, nn.Linear(HIDDEN, HIDDEN))
        self.core = Core()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        heads = (part.view(*part.shape[:2], HEADS, -1).transpose(1, 2) for part in parts)
        mixed = self.core(*heads).transpose(1, 2)
        return self.out_proj(mixed.reshape(*mixed.shape[:2], HIDDEN))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn = Attention()
        self.self_attn_layer_norm = nn.LayerNorm(HIDDEN)
        self.final_layer_norm = nn.LayerNorm(HIDDEN)
        self.fc1 = nn.Linear(HIDDEN, FEED_FORWARD)
        self.fc2 = nn.Linear(FEED_FORWARD, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.self_attn_layer_norm(x))
        return x + self.fc2(nn.functional.gelu(self.fc1(self.final_layer_norm(x))))


class Toy(nn.Module):
    """`model.decoder.layers.0` is the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Module()
        self.model.decoder = nn.Module()
        self.model.decoder.layers = nn.ModuleList([Layer()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model.decoder.layers[0](x)


def make() -> tuple[Toy, torch.Tensor, torch.Tensor]:
    """The same layer, input and output gradient in every process."""
    torch.manual_seed(0)
    model = Toy().to(torch.float64)
    shape = (BATCH, SEQUENCE, HIDDEN)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    return model, x, torch.randn(shape, dtype=torch.float64)


def whole(tensor: Any) -> torch.Tensor:
    """All of a tensor, however it is split."""
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach().clone()


def results(model: Toy, x: torch.Tensor, output_gradient: torch.Tensor) -> Results:
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


def run(rank: int, processes: int, folder: str, plans: dict[str, str]) -> None:
    """One process: each plan in turn; what differs from the whole layer, and the sizes of weights'
    parts, go to a file."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=processes,
        timeout=timedelta(seconds=60),
    )
    expected = results(*make())
    found = {}
    for name, text in plans.items():
        plan = json.loads(text)
        model, x, output_gradient = make()
        apply_plan(model, plan, device_mesh(plan, "cpu"), attention=[ATTENTION])
        got = results(model, x, output_gradient)
        layer = model.model.decoder.layers[0]
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
