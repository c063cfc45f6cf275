"""What communication takes of a rank's memory, buffer by buffer, each with its basis.

Sources: NCCL's `src/init.cc` for the buffers of a connection (4 MiB for its simple protocol, 4.7
MiB for LL128, 0.5 MiB for LL), its issue #1685 and nccl-tests #100 for what is allocated and how
many channels there are; Megatron-LM for what its schedules and layers allocate.
"""

from __future__ import annotations

from typing import Any

from planner.cost.build import CostModel
from planner.cost.footprint import CommunicationBuffers

NCCL_CONNECTION_BYTES = 10 * 2**20
NCCL_CHANNELS = 24
NCCL_RING_CONNECTIONS = 2

_COUNTED, _RESERVED = "communication_buffers_bytes", "reserved_bytes"


def buffer_documents(costs: CostModel, buffers: CommunicationBuffers) -> list[dict[str, Any]]:
    """The buffers of one rank. `counted_in` names the part of its memory that has them."""
    rows = [
        (
            "activations and gradients between pipeline ranks",
            buffers.pipeline_bytes,
            _COUNTED,
            "One micro-batch's boundary activation each: what is sent on, its gradient coming "
            "back, the gradient sent back; with interleaving the next input arrives ahead.",
        ),
        (
            "whole sequences gathered for sequence parallelism",
            buffers.sequence_bytes,
            _COUNTED,
            "Input and output gradient of a linear layer, gathered for its backward (Korthikanti "
            "et al. 2022, section 4.2.2: kept as a part, gathered again).",
        ),
        (
            "keys and values of other context ranks",
            buffers.context_bytes,
            _COUNTED,
            "The block at work and the next, with their gradients (Liu et al. 2023).",
        ),
        (
            "tokens on their way to experts",
            buffers.expert_bytes,
            _COUNTED,
            "Each token once per expert chosen; what arrives is counted as activations.",
        ),
        (
            "whole gradients before ZeRO scatters them",
            buffers.gradient_bytes,
            _COUNTED,
            "ZeRO stages 2 and 3: of the largest of one layer, embedding and output layer.",
        ),
        (
            "Megatron-LM's parameter and gradient buckets",
            0,
            _COUNTED,
            "They are the parameters and gradients themselves, in one buffer each.",
        ),
        (
            "NCCL's channel buffers (estimate)",
            nccl_bytes(costs),
            _RESERVED,
            f"{NCCL_CHANNELS} channels (nccl-tests #100) x {NCCL_CONNECTION_BYTES:,} bytes (NCCL "
            "#1685) x 2 connections of a ring for each communicator; of an all-to-all as many "
            "connections as other ranks. Outside the framework's allocator.",
        ),
    ]
    return [
        {"what": what, "bytes": size, "counted_in": part, "basis": basis}
        for what, size, part, basis in rows
    ]


def nccl_bytes(costs: CostModel) -> int:
    """What NCCL's communicators take by default: one for each kind of group that has more than one
    rank, all connected."""
    degrees = costs.training.degrees
    rings = sum(
        ranks > 1 for ranks in (degrees.tensor, degrees.context, degrees.pipeline, degrees.replicas)
    )
    connections = NCCL_RING_CONNECTIONS * rings + max(0, degrees.expert - 1)
    return connections * NCCL_CHANNELS * NCCL_CONNECTION_BYTES
