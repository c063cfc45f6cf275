"""A measured problem from times and deltas of memory of the operations of each stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OpFigures:
    """Of one operation: its time, the change of memory and the most in between."""

    duration_ns: int
    delta_bytes: int = 0
    peak_bytes: int = 0


@dataclass(frozen=True)
class StageFigures:
    """Of one stage; `weight` is None where the backward is fused."""

    device: int
    forward: OpFigures
    backward: OpFigures
    weight: OpFigures | None

    def document(self) -> dict[str, int]:
        """The stage of a problem. It has fields of memory only where some was measured."""
        activation = max(0, self.forward.delta_bytes)
        left = max(0, self.forward.delta_bytes + self.backward.delta_bytes)
        document = {
            "device": self.device,
            "forward_ns": self.forward.duration_ns,
            "backward_input_ns": self.backward.duration_ns,
        }
        if self.weight is not None:
            document["backward_weight_ns"] = max(1, self.weight.duration_ns)
        if activation:
            document["activation_bytes"] = activation
            document["backward_workspace_bytes"] = max(
                0, self.backward.peak_bytes - max(0, self.backward.delta_bytes)
            )
            if self.weight is not None:
                document["weight_grad_bytes"] = left
        return document


def problem_document(stages: Sequence[StageFigures], micro_batches: int) -> dict[str, Any]:
    """The `problem` of `POST /v1/pipeline-schedules`, devices numbered as they come."""
    devices = sorted({stage.device for stage in stages})
    return {
        "micro_batches": micro_batches,
        "devices": [{} for _ in devices],
        "stages": [stage.document() | {"device": devices.index(stage.device)} for stage in stages],
    }
