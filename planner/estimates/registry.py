"""The estimates that are answered at once, by the names that their addresses have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planner.estimates.checkpoints.estimate import estimate_checkpoints
from planner.estimates.checkpoints.request import CheckpointsRequest
from planner.estimates.communication.estimate import CommunicationRequest, estimate_communication
from planner.estimates.memory.estimate import estimate_memory
from planner.estimates.offload.estimate import OffloadRequest, estimate_offload
from planner.estimates.recomputation.estimate import RecomputationRequest, estimate_recomputation
from planner.estimates.request import EstimateRequest
from planner.estimates.scaling.estimate import ScalingRequest, estimate_scaling
from planner.estimates.step_time.estimate import estimate_step_time

Body = Mapping[str, Any]
Answer = dict[str, Any]
Estimate = Callable[[Body], Answer]
"""Reads and checks a request's body and answers it. Raises `SpecError` that names the field at
fault and the remedy."""


ESTIMATES: Mapping[str, Estimate] = {
    "memory": estimate_memory,
    "step-time": estimate_step_time,
    "recomputation": estimate_recomputation,
    "scaling": estimate_scaling,
    "offload": estimate_offload,
    "communication": estimate_communication,
    "checkpoints": estimate_checkpoints,
}
REQUESTS: Mapping[str, type[EstimateRequest]] = {
    "memory": EstimateRequest,
    "step-time": EstimateRequest,
    "recomputation": RecomputationRequest,
    "scaling": ScalingRequest,
    "offload": OffloadRequest,
    "communication": CommunicationRequest,
    "checkpoints": CheckpointsRequest,
}
"""What the body of each has to be."""
