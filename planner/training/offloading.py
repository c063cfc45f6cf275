"""Whether offloads make a configuration fit, and whether the links carry them beside the work.

A rank that may keep r of the w activations that 1F1B has in flight there sends the others out and
gets them back. Three are in memory in any case (`RESIDENT`), so that the share (w - r) / (w - 3) of
all has to go. While the pipeline is full a micro-batch takes as long as the busiest rank's work;
what a link, with all the ranks that share it, needs beyond that lengthens the step. Which
activations go, and when, is left to the schedule solver.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from planner.cost.blocks import Blocks
from planner.cost.build import CostModel
from planner.cost.footprint import RankFootprint
from planner.cost.step import StepTime, step_time
from planner.cost.training import Training
from planner.pipeline.problem import PipelineProblem
from planner.training.bounds import RESIDENT


@dataclass(frozen=True, slots=True)
class OffloadUse:
    """Offloads that make a plan fit. By rank: bytes of a GPU's memory that they save, and the share
    of the activations that goes to the host. `busiest_link` is the share of its time that the
    busiest link works while the pipeline is full, `wait_ns` what it adds to the step."""

    saved_bytes: tuple[int, ...]
    shares: tuple[float, ...]
    busiest_link: float
    wait_ns: int


@dataclass(frozen=True, slots=True)
class OffloadShortage:
    """Why offloads do not do: a rank whose memory is still short of (`gpu`), or a host whose memory
    is (`host`). `peak_bytes` is what a GPU would need with all that can be offloaded."""

    where: Literal["gpu", "host"]
    number: int
    needed_bytes: int
    limit_bytes: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class _Kept:
    """Activations of one rank: so many chunks in flight of which `resident` stay, each of `bytes`
    of which `offloadable` can go."""

    in_flight: int
    resident: int
    chunk_bytes: int
    offloadable_bytes: int

    @property
    def away(self) -> int:
        return self.in_flight - self.resident

    @property
    def share(self) -> float:
        return self.away / (self.in_flight - RESIDENT) if self.away else 0.0


def single_micro_batches(costs: CostModel) -> list[PipelineProblem]:
    """The pipeline problem of a single micro-batch, as all are alike, with each way to offload that
    is open, the usual one first. Empty where states leave no room for any."""
    one = replace(costs, training=replace(costs.training, micro_batches=1))
    ways = costs.variants if costs.training.offload else costs.variants[:1]
    candidates = (replace(one, variants=(way,)).candidates() for way in ways)
    return [found[0].problem for found in candidates if found]


def quickest_step(problems: Sequence[PipelineProblem], training: Training) -> StepTime:
    """The shortest step by any way to offload, so that its bound holds for all."""
    chunks, count = training.interleaving or 1, training.micro_batches
    steps = [step_time(problem, chunks, count) for problem in problems]
    return min(steps, key=lambda step: step.bound_ns)


def needed_offloads(
    problem: PipelineProblem,
    ranks: Sequence[RankFootprint],
    blocks: Blocks,
    micro_batches: int,
) -> OffloadUse | OffloadShortage:
    """The least offloads that let every rank fit. `problem` is that of one micro-batch."""
    kept = [_kept(problem, rank, blocks) for rank in ranks]
    least = max(
        rank.total_bytes - (k.in_flight - min(k.in_flight, RESIDENT)) * k.offloadable_bytes
        for rank, k in zip(ranks, kept, strict=True)
    )
    for rank, own in zip(ranks, kept, strict=True):
        if own.resident < min(own.in_flight, RESIDENT):
            needed = rank.total_bytes - max(0, own.in_flight - RESIDENT) * own.offloadable_bytes
            return OffloadShortage("gpu", rank.rank, needed, rank.limit_bytes, least)
    for number, host in enumerate(problem.hosts):
        on_host = sum(
            own.away * own.offloadable_bytes
            for own, device in zip(kept, problem.devices, strict=True)
            if device.host == number
        )
        if host.memory_bytes is not None and on_host > host.memory_bytes:
            return OffloadShortage("host", number, on_host, host.memory_bytes, least)
    period_ns = max(
        sum(problem.stages[s].compute_ns(0) for s in own) for own in problem.stages_of_device
    )
    busiest_ns = max(_link_loads_ns(problem, kept).values(), default=0.0)
    return OffloadUse(
        saved_bytes=tuple(own.away * own.offloadable_bytes for own in kept),
        shares=tuple(own.share for own in kept),
        busiest_link=busiest_ns / period_ns if period_ns else 0.0,
        wait_ns=micro_batches * max(0, math.ceil(busiest_ns) - period_ns),
    )


def _kept(problem: PipelineProblem, rank: RankFootprint, blocks: Blocks) -> _Kept:
    in_flight = rank.chunks_in_flight
    activations = rank.activations_bytes + rank.embedding_activations_bytes
    of_rank = rank.layers * blocks.layer.activation_bytes
    of_rank += blocks.embedding.activation_bytes if rank.rank == 0 else 0
    can_go = sum(problem.stages[s].offload_bytes[0] for s in problem.stages_of_device[rank.rank])
    chunk = -(-activations // in_flight)
    offloadable = chunk * can_go // of_rank if of_rank else 0
    short = -rank.headroom_bytes
    away = 0 if short <= 0 else in_flight
    if short > 0 and offloadable:
        away = min(in_flight, -(-short // offloadable))
    return _Kept(in_flight, in_flight - away, chunk, offloadable)


def _link_loads_ns(problem: PipelineProblem, kept: Sequence[_Kept]) -> dict[tuple[str, str], float]:
    """What each channel works per micro-batch: links carry both directions at once or in turn."""
    loads: dict[tuple[str, str], float] = defaultdict(float)
    for number, stage in enumerate(problem.stages):
        share = kept[stage.device].share
        loads[problem.channel(number, "O")] += share * stage.offload_ns[0]
        loads[problem.channel(number, "R")] += share * stage.reload_ns[0]
    return loads
