"""Trains a small Transformer under a plan that follows what it measures.

    loadmaster serve
    torchrun --nproc-per-node 4 examples/torch/follow.py --straggler 1 --from 60

Rank 0 begins a run from a guess, all ranks alike; from the given iteration on the layer of one rank
takes twice as long, the service finds a schedule for that, and all ranks switch to it at once.
"""

from __future__ import annotations

import argparse
import logging
import os
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from client.torch_following import FollowingPipeline, first_plan, share_run
from client.torch_runner import stage_for

WIDTH, LENGTH, VOCABULARY, MICRO_BATCH_SIZE = 64, 8, 16, 8
PAUSE_S = 0.004
"""What an operation takes at least, so that a schedule makes a difference on two cores too."""


class Layer(nn.Module):
    """A Transformer layer that takes some time, and can become slow."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.pause_s = PAUSE_S

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        time.sleep(self.pause_s)
        if x.requires_grad:
            x.register_hook(lambda _: time.sleep(self.pause_s))
        return x


def stage_module(index: int, stages: int) -> tuple[nn.Module, Layer]:
    """A layer; on the first stage the embedding too, and on the last one the head."""
    torch.manual_seed(index)
    layer = Layer()
    modules: list[nn.Module] = [layer]
    if index == 0:
        modules.insert(0, nn.Embedding(VOCABULARY, WIDTH))
    if index == stages - 1:
        modules.append(nn.Linear(WIDTH, VOCABULARY))
    return nn.Sequential(*modules), layer


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(output.flatten(0, 1), target.flatten())


def guess(ranks: int, micro_batches: int) -> dict[str, Any]:
    """What a run begins with: a stage per rank, all alike. Profiles and models are better ones."""
    stage = {
        "forward_ns": 5_000_000,
        "backward_input_ns": 5_000_000,
        "backward_weight_ns": 1_000_000,
        "activation_bytes": 2**20,
        "weight_grad_bytes": 2**19,
    }
    return {
        "name": "follow.py",
        "problem": {
            "micro_batches": micro_batches,
            "devices": [{} for _ in range(ranks)],
            "stages": [{"device": rank, **stage} for rank in range(ranks)],
        },
        "solver": {"time_limit_s": 60},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Train under a plan that follows the run.")
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--straggler", type=int, default=1, help="rank that becomes slow")
    parser.add_argument("--from", dest="slow_from", type=int, default=60, help="iteration")
    parser.add_argument("--run", help="id of a run to join again, as after a restart")
    options = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    follow = {"resolve_every": 30, "warm_up": 5, "window": 40, "solve_time_limit_s": 30}
    run = share_run(guess(ranks, options.micro_batches), run_id=options.run, follow=follow)
    first = first_plan(run, wait_s=120)
    if first is None:
        raise SystemExit("There is no plan to begin with: is `loadmaster serve` running?")
    stages = len(first.schedule.rank_of_stage)
    modules = {index: stage_module(index, stages) for index in first.schedule.stages_of(rank)}
    own = [
        stage_for(first.schedule, index, module.to(device), device)
        for index, (module, _) in modules.items()
    ]
    optimizer = torch.optim.AdamW([p for stage in own for p in stage.submod.parameters()], lr=1e-3)
    generator = torch.Generator().manual_seed(0)
    is_last = stages - 1 in modules
    with FollowingPipeline(run, first, own, loss_of) as pipeline:
        version, began = pipeline.version, time.monotonic()
        for iteration in range(options.iterations):
            if rank == options.straggler and iteration == options.slow_from:
                for _, layer in modules.values():
                    layer.pause_s = 2 * PAUSE_S
            shape = (MICRO_BATCH_SIZE * options.micro_batches, LENGTH)
            tokens = torch.randint(VOCABULARY, shape, generator=generator).to(device)
            losses: list[Tensor] = []
            optimizer.zero_grad()
            pipeline.step(
                iteration,
                *((tokens,) if 0 in modules else ()),
                target=tokens.flip(1) if is_last else None,
                losses=losses if is_last else None,
            )
            optimizer.step()
            if is_last and pipeline.version != version:
                version = pipeline.version
                print(f"iteration {iteration}: version {version} from here on", flush=True)
            if is_last and iteration % 20 == 19:
                mean = sum(loss.item() for loss in losses) / options.micro_batches
                pace_ms = (time.monotonic() - began) / 20 * 1e3
                began = time.monotonic()
                print(f"iteration {iteration + 1}: loss {mean:.4f}, {pace_ms:.0f} ms", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
