"""Small pipelines made of layers, whose parts are known exactly."""

from __future__ import annotations

from collections.abc import Sequence

from planner.pipeline.problem import Device, PipelineProblem, Stage, Transfer

FORWARD_NS, BACKWARD_NS, WEIGHT_NS, ACTIVATION_BYTES = 400, 500, 300, 60


def layered(
    per_stage: Sequence[int],
    *,
    micro_batches: int = 8,
    speeds: Sequence[int] | None = None,
    extras: tuple[int, int] = (0, 0),
    limits: Sequence[int | None] | None = None,
    static_bytes: int = 0,
    offload: bool = False,
    device_of_stage: Sequence[int] | None = None,
) -> PipelineProblem:
    """Stages of so many layers. Layers on stage s take `speeds[s]` times as long as usual; the
    ends have as much work besides as `extras` layers. A device has `limits` bytes less
    `static_bytes` for each of its layers."""
    stages = len(per_stage)
    devices = list(device_of_stage or range(stages))
    speeds = speeds or [1] * stages
    more = [0] * stages
    more[0] += extras[0]
    more[-1] += extras[1]

    def every(value: int) -> tuple[int, ...]:
        return (value,) * micro_batches

    def stage(s: int) -> Stage:
        worth = (per_stage[s] + more[s]) * speeds[s]
        size = per_stage[s] * ACTIVATION_BYTES
        return Stage(
            device=devices[s],
            forward_ns=every(worth * FORWARD_NS),
            backward_input_ns=every(worth * BACKWARD_NS),
            backward_weight_ns=every(worth * WEIGHT_NS),
            activation_bytes=every(size),
            weight_grad_bytes=every(size // 2),
            backward_workspace_bytes=every(7),
            offload_bytes=every(size if offload else 0),
            offload_ns=every(per_stage[s] * 200),
            reload_ns=every(per_stage[s] * 200),
        )

    held = [0] * (max(devices) + 1)
    for s, device in enumerate(devices):
        held[device] += per_stage[s]
    limits = limits or [None] * len(held)
    return PipelineProblem(
        micro_batches=micro_batches,
        devices=tuple(
            Device(None if limit is None else limit - static_bytes * layers)
            for limit, layers in zip(limits, held, strict=True)
        ),
        stages=tuple(map(stage, range(stages))),
        transfers=tuple(Transfer(every(10), every(10)) for _ in range(stages - 1)),
    )
