"""What was timed, as the service takes it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import torch

from client.torch_following.timing import Iteration
from client.torch_runner.executor import LOSS

FIELD_OF = {
    "F": "forward_ns",
    "I": "backward_input_ns",
    "W": "backward_weight_ns",
    "B": "backward_input_ns",
    "O": "offload_ns",
    "R": "reload_ns",
}
"""A fused backward counts as one that has no weight part, as in a problem."""


def stage_samples(iteration: Iteration, device: torch.device) -> list[dict[str, Any]]:
    """Per stage what one micro-batch took; the loss counts to the last stage's forward.

    The peak of the device's memory is said of the first of the rank's stages.
    """
    samples: dict[int, dict[str, Any]] = {}
    for (stage, kind), taken_ns in sorted(iteration.taken_ns.items()):
        if kind == LOSS:
            continue
        losses_ns = iteration.taken_ns.get((stage, LOSS), [])
        if kind == "F" and len(losses_ns) == len(taken_ns):
            taken_ns = [sum(both) for both in zip(taken_ns, losses_ns, strict=True)]
        samples.setdefault(stage, {"stage": stage})[FIELD_OF[kind]] = measure_of(taken_ns)
    listed = list(samples.values())
    if listed and device.type == "cuda":
        listed[0]["peak_memory_bytes"] = int(torch.cuda.max_memory_allocated(device))
    return listed


def measure_of(taken_ns: Sequence[int]) -> dict[str, int]:
    """Mean, median and 95th percentile of the micro-batches."""
    ordered = sorted(taken_ns)
    return {
        "mean": round(statistics.fmean(ordered)),
        "median": round(statistics.median(ordered)),
        "p95": ordered[-(-95 * len(ordered) // 100) - 1],
    }
