"""Trains a small Transformer by a planned schedule, on as many processes as it has ranks.

    loadmaster export JOB --to torch-csv -o schedule.csv
    torchrun --nproc-per-node 4 examples/torch/train.py schedule.csv

A CSV runs in PyTorch alone; a schedule with offloads (torch-schedule, JSON) in
`client.torch_runner`. The model has a Transformer layer per stage and learns to reverse sequences.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
from torch.nn import functional

WIDTH, LENGTH, VOCABULARY, MICRO_BATCH_SIZE = 64, 8, 16, 8


class Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.1)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.tokens(tokens) + self.places


def stage_module(index: int, stages: int) -> nn.Module:
    """A layer; on the first stage the embedding too, and on the last one the head."""
    torch.manual_seed(index)
    layers: list[nn.Module] = [
        nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
    ]
    if index == 0:
        layers.insert(0, Embedding())
    if index == stages - 1:
        layers.append(nn.Linear(WIDTH, VOCABULARY))
    return nn.Sequential(*layers)


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(output.flatten(0, 1), target.flatten())


def from_csv(path: Path, rank: int, device: torch.device) -> tuple[Any, dict[int, Any], int, int]:
    """PyTorch's runtime, the rank's stages, and how many stages and micro-batches there are."""
    rows = [
        [cell.strip() for cell in line.split(",") if cell.strip()]
        for line in path.read_text().splitlines()
    ]
    # A cell is a stage, a letter and a micro-batch.
    stage_of = [[int(cell.rstrip("0123456789")[:-1]) for cell in row] for row in rows]
    stages = 1 + max(map(max, stage_of))
    micro_batches = sum(cell.startswith("0F") for row in rows for cell in row)
    own = {
        index: PipelineStage(stage_module(index, stages).to(device), index, stages, device)
        for index in sorted(set(stage_of[rank]))
    }
    runtime = _PipelineScheduleRuntime(list(own.values()), micro_batches, loss_fn=loss_of)
    runtime._load_csv(str(path))
    return runtime, own, stages, micro_batches


def from_json(path: Path, rank: int, device: torch.device) -> tuple[Any, dict[int, Any], int, int]:
    """The same of a schedule with offloads."""
    from client.torch_runner import build_runtime, load_schedule, stage_for

    schedule = load_schedule(path)
    stages = len(schedule.rank_of_stage)
    own = {
        index: stage_for(schedule, index, stage_module(index, stages).to(device), device)
        for index in schedule.stages_of(rank)
    }
    runtime = build_runtime(schedule, list(own.values()), loss_of)
    return runtime, own, stages, schedule.micro_batches


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small Transformer by a schedule.")
    parser.add_argument("schedule", type=Path, help="torch-csv (.csv) or torch-schedule (.json)")
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    dist.init_process_group("nccl" if on_gpu else "gloo")
    load = from_json if options.schedule.suffix == ".json" else from_csv
    runtime, own, stages, micro_batches = load(options.schedule, dist.get_rank(), device)
    is_last = stages - 1 in own
    parameters = [p for stage in own.values() for p in stage.submod.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    generator = torch.Generator().manual_seed(0)
    for step in range(options.steps):
        shape = (MICRO_BATCH_SIZE * micro_batches, LENGTH)
        tokens = torch.randint(VOCABULARY, shape, generator=generator).to(device)
        losses: list[Tensor] = []
        optimizer.zero_grad()
        runtime.step(
            *((tokens,) if 0 in own else ()),
            target=tokens.flip(1) if is_last else None,
            losses=losses if is_last else None,
            return_outputs=False,
        )
        optimizer.step()
        if is_last and (step % 10 == 9 or step == 0):
            mean = sum(loss.item() for loss in losses) / micro_batches
            print(f"step {step + 1}: loss {mean:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
