"""What one micro-batch alone holds on a device.

Alone, a micro-batch goes F(0) ... F(S-1), B(S-1) ... B(0), each W right after its B. On a device
with stages 0 < 1 < ... the memory in use is largest at the start of a B(s), with

    activation(s) + what B(s) allocates + the sum over earlier stages r < s of
    activation(r) - offloaded part of r, if it is out on the host then,

since F(s) needs no more than B(s) and W(s) no more than B(s) did.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Token

Moves = dict[Token, tuple[Token, ...]]
"""Offloads and reloads to be done right before an F or B of the same micro-batch."""


@dataclass(frozen=True)
class Chunk:
    """What one stage holds for one micro-batch, in bytes."""

    stage: int
    device: int
    activation: int
    backward_allocation: int
    offload: int


def chunks_of(problem: PipelineProblem, device: int, micro_batch: int) -> tuple[Chunk, ...]:
    """The stages of a device as they see one micro-batch, ascending.

    The workspace of a B of zero length is never in use, because at one instant frees come before
    allocations.
    """
    chunks = []
    for s in problem.stages_of_device[device]:
        stage = problem.stages[s]
        allocation = stage.backward_allocation_bytes(micro_batch)
        if not stage.backward_input_ns[micro_batch]:
            allocation -= stage.backward_workspace_bytes[micro_batch]
        chunks.append(
            Chunk(
                stage=s,
                device=device,
                activation=stage.activation_bytes[micro_batch],
                backward_allocation=allocation,
                offload=stage.offload_bytes[micro_batch],
            )
        )
    return tuple(chunks)


def peak_bytes_alone(chunks: Sequence[Chunk], out: Collection[int]) -> int:
    """The most a device holds if the stages in `out` are offloaded until their own B."""
    peak = earlier = 0
    for chunk in chunks:
        peak = max(peak, earlier + chunk.activation + chunk.backward_allocation)
        earlier += chunk.activation - (chunk.offload if chunk.stage in out else 0)
    return peak
