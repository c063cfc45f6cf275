"""Random clusters whose devices or stages are not alike. All draws are uniform."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from planner.pipeline.documents import read_problem
from planner.pipeline.problem import PipelineProblem

MS, MIB = 1_000_000, 2**20


@dataclass(frozen=True, slots=True)
class Differences:
    """What sets a kind of clusters apart: a factor per stage for its times and for its bytes, the
    share of 1F1B's largest memory that each device has, and what stages, devices and the problem
    have besides."""

    times: Sequence[float]
    bytes: Sequence[float]
    memory: float
    stage: dict[str, int] = field(default_factory=dict)
    devices: Sequence[Mapping[str, str]] = field(default_factory=list)
    problem: Mapping[str, str] = field(default_factory=dict)


def cluster(kind: str, seed: int) -> PipelineProblem:
    """A problem of a kind of `KINDS`, the same for the same seed: one stage per device."""
    draw = Random(f"{kind} {seed}")
    devices = draw.choice((4, 8))
    micro_batches = devices * draw.randint(2, 4)
    stage = _stage(draw)
    hop_ns = round(stage["forward_ns"] * draw.uniform(0.02, 0.05))
    own = KINDS[kind](draw, devices, stage)
    stage |= own.stage
    stages = [
        {
            name: round(value * (time if name.endswith("_ns") else size))
            for name, value in stage.items()
        }
        for time, size in zip(own.times, own.bytes, strict=True)
    ]
    held_bytes = [
        min(micro_batches, devices - d) * own_stage["activation_bytes"]
        for d, own_stage in enumerate(stages)
    ]
    limit_bytes = round(own.memory * max(held_bytes))
    return read_problem(
        {
            "micro_batches": micro_batches,
            "devices": [
                {"activation_memory_bytes": limit_bytes, **device}
                for device in own.devices or [{}] * devices
            ],
            "stages": [{"device": d, **stage} for d, stage in enumerate(stages)],
            "transfers": [{"forward_ns": hop_ns, "backward_ns": hop_ns}] * (devices - 1),
            **own.problem,
        }
    )


def _stage(draw: Random) -> dict[str, int]:
    forward_ns = draw.randint(10 * MS, 40 * MS)
    activation_bytes = draw.randint(200 * MIB, 1500 * MIB)
    return {
        "forward_ns": forward_ns,
        "backward_input_ns": round(forward_ns * draw.uniform(0.95, 1.05)),
        "backward_weight_ns": round(forward_ns * draw.uniform(0.5, 0.9)),
        "activation_bytes": activation_bytes,
        "weight_grad_bytes": round(activation_bytes * draw.uniform(0.35, 0.6)),
    }


def _slow_last_stage(draw: Random, devices: int, stage: Mapping[str, int]) -> Differences:
    alike = [1.0] * (devices - 1)
    time, size = draw.uniform(1.2, 1.8), draw.uniform(1.0, 1.3)
    return Differences([*alike, time], [*alike, size], draw.uniform(0.5, 1.5))


def _straggler(draw: Random, devices: int, stage: Mapping[str, int]) -> Differences:
    times = [1.0] * devices
    times[draw.randrange(devices)] = draw.uniform(1.1, 1.6)
    return Differences(times, [1.0] * devices, draw.uniform(0.5, 1.5))


def _uneven_layers(draw: Random, devices: int, stage: Mapping[str, int]) -> Differences:
    usual = draw.randint(3, 6)
    layers = [draw.randint(usual - 1, usual + 1) / usual for _ in range(devices)]
    return Differences(layers, layers, draw.uniform(0.5, 1.5))


def _shared_switch(draw: Random, devices: int, stage: Mapping[str, int]) -> Differences:
    compute_ns = sum(stage[name] for name in stage if name.endswith("_ns"))
    one_way_ns = round(compute_ns * draw.uniform(0.3, 1.0) / 2)
    shared_by = draw.choice((2, 4))
    moved = {
        "offload_bytes": stage["activation_bytes"],
        "offload_ns": one_way_ns,
        "reload_ns": one_way_ns,
    }
    return Differences(
        times=[1.0] * devices,
        bytes=[1.0] * devices,
        memory=draw.uniform(0.3, 0.7),
        stage=moved,
        devices=[{"host_link": f"switch {d // shared_by}"} for d in range(devices)],
        problem={"host_link_duplex": draw.choice(("half", "full"))},
    )


KINDS: Mapping[str, Callable[[Random, int, Mapping[str, int]], Differences]] = {
    "slow last stage": _slow_last_stage,
    "straggler": _straggler,
    "uneven layers": _uneven_layers,
    "shared switch": _shared_switch,
}
