"""The measurements of a profile, in their order: warm up, memory, times, copies."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from client.torch_profile.copies import copy_times_ns, offload_times_ns, saved_by
from client.torch_profile.live_bytes import meter_for
from client.torch_profile.measured import (
    Levels,
    MeasuredOp,
    MeasuredStage,
    MeasuredTransfer,
    spread,
)
from client.torch_profile.observers import (
    ClockObserver,
    EventObserver,
    MemoryObserver,
    OpOfStage,
    run_only,
)
from client.torch_profile.operations import Stage, received, stages_of
from client.torch_profile.passes import run_micro_batch
from client.torch_profile.pipeline import Pipeline, Tensors
from client.torch_profile.splits import Split

WARM_UP_PASSES = 2


@dataclass(frozen=True)
class Measured:
    """All that was measured of a pipeline."""

    stages: tuple[MeasuredStage, ...]
    transfers: tuple[MeasuredTransfer, ...]


def measure(pipeline: Pipeline, split: Split, *, repeat: int, threads: int) -> Measured:
    """Measure every stage, `repeat` times each, with so many CPU threads.

    Times and memory come from different passes, since a meter takes time. A deferred split
    changes the pipeline's linear layers in place.
    """
    device = pipeline.micro_batch[0].device
    stages = stages_of(pipeline, split)
    with _threads(threads):
        for _ in range(WARM_UP_PASSES):
            run_micro_batch(stages, pipeline.micro_batch, run_only)
        levels, borders = _memory(stages, pipeline.micro_batch, device)
        times = _times(stages, pipeline.micro_batch, device, repeat)
        inputs = _inputs(stages, pipeline.micro_batch)
        measured = tuple(
            _stage(stage, s, inputs[s], levels, times, borders[s], repeat)
            for s, stage in enumerate(stages)
        )
        return Measured(measured, _transfers(inputs[1:], repeat))


@contextmanager
def _threads(threads: int) -> Iterator[None]:
    """So many threads for PyTorch's operators, and no collection of garbage in between."""
    before, collects = torch.get_num_threads(), gc.isenabled()
    torch.set_num_threads(threads)
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        torch.set_num_threads(before)
        if collects:
            gc.enable()


def _memory(
    stages: Sequence[Stage], micro_batch: Tensors, device: torch.device
) -> tuple[dict[OpOfStage, Levels], list[int]]:
    """Levels of each operation, and the bytes at each stage's borders."""
    with meter_for(device) as meter:
        # What stays for good, such as caches, is there after the first pass.
        run_micro_batch(stages, micro_batch, run_only)
        observer = MemoryObserver(meter)
        run_micro_batch(stages, micro_batch, observer)
    return observer.levels, [observer.border_bytes[s] for s in range(len(stages))]


def _times(
    stages: Sequence[Stage], micro_batch: Tensors, device: torch.device, repeat: int
) -> dict[OpOfStage, list[int]]:
    observer = EventObserver() if device.type == "cuda" else ClockObserver()
    for _ in range(repeat):
        run_micro_batch(stages, micro_batch, observer)
    return observer.taken_ns()


def _inputs(stages: Sequence[Stage], micro_batch: Tensors) -> list[Tensors]:
    """What each stage receives."""
    inputs = [micro_batch]
    for stage in stages[:-1]:
        inputs.append(received(stage.forward(0, inputs[-1])))
        stage.kept.clear()
    return inputs


def _stage(
    stage: Stage,
    s: int,
    inputs: Tensors,
    levels: dict[OpOfStage, Levels],
    times: dict[OpOfStage, list[int]],
    border_bytes: int,
    repeat: int,
) -> MeasuredStage:
    def op(name: str) -> MeasuredOp:
        return MeasuredOp(spread(times[name, s]), levels[name, s])

    saved = saved_by(stage, inputs)
    offload, reload = offload_times_ns(saved, inputs[0].device, repeat)
    return MeasuredStage(
        split=stage.split,
        forward=op("F"),
        backward=op("B"),
        weight=op("W") if stage.has_weight_pass else None,
        offloadable_bytes=saved.total_bytes,
        offload=spread(offload),
        reload=spread(reload),
        border_bytes=border_bytes,
        parameter_bytes=sum(p.numel() * p.element_size() for p in stage.module.parameters()),
    )


def _transfers(inputs: Sequence[Tensors], repeat: int) -> tuple[MeasuredTransfer, ...]:
    """Copies on this device: of what each later stage receives, and of gradients of that size for
    what is differentiable."""
    transfers = []
    for tensors in inputs:
        sent = [tensor.detach() for tensor in tensors]
        back = [tensor.detach() for tensor in tensors if tensor.requires_grad]
        forward = copy_times_ns(sent, [torch.empty_like(t) for t in sent], repeat)
        backward = copy_times_ns(back, [torch.empty_like(t) for t in back], repeat)
        transfers.append(
            MeasuredTransfer(
                forward_bytes=sum(t.numel() * t.element_size() for t in sent),
                backward_bytes=sum(t.numel() * t.element_size() for t in back),
                forward=spread(forward),
                backward=spread(backward),
            )
        )
    return tuple(transfers)
