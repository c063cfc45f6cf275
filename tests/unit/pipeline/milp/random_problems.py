"""Small random problems that between them have everything a pipeline problem can have."""

from __future__ import annotations

import random

from planner.pipeline.problem import (
    Device,
    Duplex,
    Host,
    Objective,
    PipelineProblem,
    Stage,
    Transfer,
)


def random_problem(seed: int) -> PipelineProblem:
    """Two or three stages, two or three micro-batches, times of a few units."""
    draw = random.Random(seed)
    objective = Objective.STEADY_SPAN if draw.random() < 0.25 else Objective.MAKESPAN
    micro_batches = draw.choice([2, 2, 3] if objective is Objective.STEADY_SPAN else [2, 3, 3])
    stage_count = draw.choice([2, 3])
    if micro_batches == 3 and draw.random() < 0.7:
        stage_count = 2
    placement = draw.choice(
        [list(range(stage_count)), [0] * (stage_count - 1) + [1], [0, 1, 0][:stage_count]]
    )
    device_count = max(placement) + 1
    unequal = draw.random() < 0.4
    can_offload = draw.random() < 0.5

    def values(low: int, high: int) -> tuple[int, ...]:
        if unequal:
            return tuple(draw.randint(low, high) for _ in range(micro_batches))
        return (draw.randint(low, high),) * micro_batches

    stages = []
    for device in placement:
        activation = values(2, 4)
        offloads = can_offload and draw.random() < 0.8
        size = tuple(draw.randint(1, a) if offloads else 0 for a in activation)
        if not unequal:
            size = (size[0],) * micro_batches
        stages.append(
            Stage(
                device=device,
                forward_ns=values(1, 3),
                backward_input_ns=values(1, 3),
                backward_weight_ns=values(0, 2) if draw.random() < 0.8 else (0,) * micro_batches,
                activation_bytes=activation,
                weight_grad_bytes=values(0, 5),
                backward_workspace_bytes=values(0, 2)
                if draw.random() < 0.4
                else (0,) * micro_batches,
                offload_bytes=size,
                offload_ns=values(0, 2),
                reload_ns=values(0, 3),
            )
        )
    shared = draw.random() < 0.4
    limits = [_limit(draw, stages, d, micro_batches) for d in range(device_count)]
    hosts = (Host(draw.choice([2, 4, None])),) if draw.random() < 0.4 else ()
    return PipelineProblem(
        micro_batches=micro_batches,
        devices=tuple(
            Device(
                activation_memory_bytes=limit,
                host_link="switch" if shared else None,
                host=0 if hosts else None,
                epilogue_ns=draw.choice([0, 0, 1, 3]),
            )
            for limit in limits
        ),
        stages=tuple(stages),
        transfers=tuple(Transfer(values(0, 2), values(0, 2)) for _ in range(stage_count - 1)),
        hosts=hosts,
        host_link_duplex=draw.choice([Duplex.FULL, Duplex.HALF]),
        objective=objective,
    )


def _limit(draw: random.Random, stages: list[Stage], device: int, micro_batches: int) -> int | None:
    """Enough for one micro-batch at a time, and a little more; sometimes no limit."""
    mine = [stage for stage in stages if stage.device == device]
    least = max(
        sum(
            max(s.activation_bytes[m], s.late_bytes(m)) + s.backward_workspace_bytes[m]
            for s in mine
        )
        for m in range(micro_batches)
    )
    return draw.choice([None, least, least + 1, least + 3, least + 5])
