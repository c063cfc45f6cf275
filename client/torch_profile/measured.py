"""What a profile has measured, as plain numbers, and the stage of a pipeline problem it gives."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from client.torch_profile.splits import Split


@dataclass(frozen=True)
class Spread:
    """Repeated measurements of one time."""

    samples_ns: tuple[int, ...]

    @property
    def median_ns(self) -> int:
        """What the problem gets."""
        return round(statistics.median(self.samples_ns))

    @property
    def quartiles_ns(self) -> tuple[int, int]:
        """A quarter of the samples lies below the first, a quarter above the second."""
        if len(self.samples_ns) == 1:
            return self.samples_ns[0], self.samples_ns[0]
        low, _, high = statistics.quantiles(self.samples_ns, n=4, method="inclusive")
        return round(low), round(high)

    def document(self) -> dict[str, Any]:
        """For the sidecar file."""
        low, high = self.quartiles_ns
        return {
            "median_ns": self.median_ns,
            "lower_quartile_ns": low,
            "upper_quartile_ns": high,
            "samples_ns": list(self.samples_ns),
        }


@dataclass(frozen=True)
class Levels:
    """Live bytes around one operation, what lies at the stage's borders left out."""

    before_bytes: int
    after_bytes: int
    peak_bytes: int

    @property
    def delta_bytes(self) -> int:
        """What the operation adds, or frees where it is negative."""
        return self.after_bytes - self.before_bytes

    @property
    def workspace_bytes(self) -> int:
        """What it takes in passing beyond what is there before it and after it."""
        return self.peak_bytes - max(self.before_bytes, self.after_bytes)

    def document(self) -> dict[str, int]:
        """For the sidecar file."""
        return {"delta_bytes": self.delta_bytes, "workspace_bytes": self.workspace_bytes}


@dataclass(frozen=True)
class MeasuredOp:
    """Time and memory of one operation of one stage."""

    time: Spread
    memory: Levels


@dataclass(frozen=True)
class MeasuredStage:
    """One stage. `weight` is None where the backward is fused; `backward` is I where it isn't.

    `border_bytes`: inputs, outputs and their gradients, of one micro-batch.
    """

    split: Split
    forward: MeasuredOp
    backward: MeasuredOp
    weight: MeasuredOp | None
    offloadable_bytes: int
    offload: Spread
    reload: Spread
    border_bytes: int
    parameter_bytes: int

    @property
    def activation_bytes(self) -> int:
        """What F leaves."""
        return max(0, self.forward.memory.delta_bytes)

    @property
    def weight_grad_bytes(self) -> int:
        """What is left of F and I together, until W: more than F's where I adds to it."""
        if self.weight is None:
            return 0
        return max(0, self.forward.memory.delta_bytes + self.backward.memory.delta_bytes)

    @property
    def backward_workspace_bytes(self) -> int:
        """What B or I takes in passing."""
        return self.backward.memory.workspace_bytes

    @property
    def residue_bytes(self) -> int:
        """What is left after the last operation; 0 unless the model keeps something."""
        ops = (self.forward, self.backward, self.weight)
        return sum(op.memory.delta_bytes for op in ops if op is not None)

    @property
    def hidden_workspace_bytes(self) -> int:
        """The most that F or W take in passing, for which a problem has no field."""
        weight = 0 if self.weight is None else self.weight.memory.workspace_bytes
        return max(self.forward.memory.workspace_bytes, weight)

    def problem_stage(self, device: int) -> dict[str, int]:
        """The stage of a pipeline problem.

        Its memory rises by `activation_bytes` when F starts, by the excess of `weight_grad_bytes`
        over it and the workspace when B starts, falls to `weight_grad_bytes` when B ends, and to
        nothing when W does: at every border of operations to what was measured. A W of no time
        means a fused backward, so one that was measured takes at least 1 ns.
        """
        weight_ns = 0 if self.weight is None else max(1, self.weight.time.median_ns)
        offload_bytes = min(self.offloadable_bytes, self.activation_bytes)
        return {
            "device": device,
            "forward_ns": self.forward.time.median_ns,
            "backward_input_ns": self.backward.time.median_ns,
            "backward_weight_ns": weight_ns,
            "activation_bytes": self.activation_bytes,
            "weight_grad_bytes": self.weight_grad_bytes,
            "backward_workspace_bytes": self.backward_workspace_bytes,
            "offload_bytes": offload_bytes,
            "offload_ns": self.offload.median_ns if offload_bytes else 0,
            "reload_ns": self.reload.median_ns if offload_bytes else 0,
        }

    def document(self) -> dict[str, Any]:
        """Raw figures for the sidecar file."""
        ops = {"F": self.forward, "B" if self.weight is None else "I": self.backward}
        if self.weight is not None:
            ops["W"] = self.weight
        return {
            "split": self.split.value,
            "operations": {
                name: {**op.time.document(), **op.memory.document()} for name, op in ops.items()
            },
            "offloadable_bytes": self.offloadable_bytes,
            "offload": self.offload.document(),
            "reload": self.reload.document(),
            "border_bytes": self.border_bytes,
            "parameter_bytes": self.parameter_bytes,
            "residue_bytes": self.residue_bytes,
            "forward_or_weight_workspace_bytes": self.hidden_workspace_bytes,
        }


@dataclass(frozen=True)
class MeasuredTransfer:
    """Outputs to the next stage and gradients back."""

    forward_bytes: int
    backward_bytes: int
    forward: Spread
    backward: Spread


def spread(samples: Sequence[int]) -> Spread:
    """Of at least one sample."""
    return Spread(tuple(samples))
