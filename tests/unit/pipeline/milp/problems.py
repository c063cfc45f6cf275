"""Problems of the benchmark set that the tests of the MILP need, written out."""

from __future__ import annotations

from typing import Any

from planner.pipeline.documents import read_problem
from planner.pipeline.problem import PipelineProblem

MS = 1_000_000
GIB = 1 << 30


def balanced(
    devices: int = 4, micro_batches: int = 8, memory: float = 1.0, **changes: Any
) -> PipelineProblem:
    """Equal stages of F 18, B 18, W 9 ms, a quarter of a GiB each; `memory` in GiB."""
    stage: dict[str, Any] = {
        "forward_ns": 18 * MS,
        "backward_input_ns": 18 * MS,
        "backward_weight_ns": 9 * MS,
        "activation_bytes": GIB // 4,
        "weight_grad_bytes": GIB // 8,
    } | changes
    return read_problem(
        {
            "micro_batches": micro_batches,
            "devices": [{"activation_memory_bytes": int(memory * GIB)}] * devices,
            "stages": [{"device": d, **stage} for d in range(devices)],
            "transfers": [{"forward_ns": MS, "backward_ns": MS}] * (devices - 1),
        }
    )
