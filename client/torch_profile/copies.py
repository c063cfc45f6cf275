"""How long copies take: activations to host memory and back, and tensors to the next stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from client.torch_profile.live_bytes import distinct_storages
from client.torch_profile.operations import Stage
from client.torch_profile.pipeline import Tensors


@dataclass(frozen=True)
class Saved:
    """Storages that a stage saves for the backward and that are one micro-batch's own: what can
    be offloaded. Parameters, buffers, masks that several share, inputs and outputs are left
    out."""

    sizes: tuple[int, ...]

    @property
    def total_bytes(self) -> int:
        """All of them."""
        return sum(self.sizes)


def saved_by(stage: Stage, inputs: Tensors) -> Saved:
    """Run F twice under saved-tensor hooks; what both runs save is shared and stays.

    Both micro-batches are forgotten afterwards.
    """
    runs = [_saved_storages(stage, micro_batch, inputs) for micro_batch in range(2)]
    shared = runs[0].keys() & runs[1].keys()
    own = {key: size for key, size in runs[0].items() if key not in shared}
    stage.kept.clear()
    return Saved(tuple(size for size in own.values() if size))


def _saved_storages(stage: Stage, micro_batch: int, inputs: Tensors) -> dict[int, int]:
    packed: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        # Not the tensor itself: a saved output would hold its own graph.
        packed.append(tensor.detach())
        return packed[-1]

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs = stage.forward(micro_batch, inputs)
    held = [*stage.module.parameters(), *stage.module.buffers(), *inputs, *outputs]
    left_out = distinct_storages(held)
    found = distinct_storages(packed)
    return {key: size for key, size in found.items() if key not in left_out}


def copy_times_ns(sources: Sequence[Tensor], targets: Sequence[Tensor], repeat: int) -> list[int]:
    """How long it takes to copy all sources into their targets, so many times, after one try."""
    device = next((t.device for t in (*sources, *targets) if t.device.type == "cuda"), None)
    clock = _clock if device is None else _cuda_clock

    def copy() -> None:
        for source, target in zip(sources, targets, strict=True):
            target.copy_(source, non_blocking=True)

    copy()
    return [clock(copy) for _ in range(repeat)]


def _clock(run: Callable[[], None]) -> int:
    begin = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - begin


def _cuda_clock(run: Callable[[], None]) -> int:
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return round(float(begin.elapsed_time(end)) * 1e6)


def offload_times_ns(
    saved: Saved, device: torch.device, repeat: int
) -> tuple[list[int], list[int]]:
    """Times of copying what a stage saves to host memory, which is pinned where there is a GPU,
    and back. On a CPU both are copies within memory."""
    on_device = [torch.zeros(size, dtype=torch.uint8, device=device) for size in saved.sizes]
    on_host = [
        torch.zeros(size, dtype=torch.uint8, pin_memory=device.type == "cuda")
        for size in saved.sizes
    ]
    return (
        copy_times_ns(on_device, on_host, repeat),
        copy_times_ns(on_host, on_device, repeat),
    )
