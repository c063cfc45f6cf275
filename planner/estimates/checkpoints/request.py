"""What an estimate of checkpoints is asked for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.cost.offload.host_tiers import Rate
from planner.documents import FiniteNumber, PositiveWhole
from planner.errors import SpecError
from planner.estimates.request import EstimateRequest

Seconds = Annotated[FiniteNumber, Field(ge=0, le=1e7)]
Hours = Annotated[FiniteNumber, Field(ge=1e-3, le=1e9)]
OpenShare = Annotated[FiniteNumber, Field(gt=0, lt=1)]
PartOf = Annotated[FiniteNumber, Field(gt=0, le=1)]

FAILURE_RATES = ("failures_per_day", "gpu_mtbf_hours", "node_mtbf_hours")


class CheckpointsRequest(EstimateRequest):
    """The documents, what a checkpoint goes to, and how often something fails."""

    parameters_bytes: PositiveWhole | None = Field(
        default=None,
        description="Of the whole model, in a checkpoint of parameters alone; default: from the "
        "model and its precision.",
    )
    state_bytes: PositiveWhole | None = Field(
        default=None,
        description="Of the whole model, in a full checkpoint (parameters and optimizer states); "
        "default: from the model, its precision and optimizer.",
    )
    storage_bytes_per_s: Rate | None = Field(
        default=None,
        description="What the shared storage takes or gives, all nodes together; absent = only "
        "the nodes' rates limit.",
    )
    storage_bytes_per_s_per_node: Rate | None = Field(
        default=None, description="What one node writes to or reads from it; default 2e9."
    )
    fast_storage: Literal["host_memory", "ssd"] = Field(
        default="host_memory", description="Where a node keeps its fast checkpoints."
    )
    fast_bytes_per_s_per_node: Rate | None = Field(
        default=None,
        description="What a node writes there; default: all its PCIe paths at work (host memory), "
        "the cluster's `ssd_bytes_per_s` (ssd).",
    )
    fast_contents: Literal["parameters", "state"] = Field(
        default="parameters", description="What a fast checkpoint holds."
    )
    fast_share: OpenShare = Field(
        default=0.5, description="Share of the failures that fast checkpoints survive."
    )
    blocking_share: PartOf = Field(
        default=1.0,
        description="Share of a full checkpoint's time that training waits for: 1 where it is "
        "written while training stands still; where it is written in the background, the snapshot.",
    )
    fast_blocking_share: PartOf = Field(default=1.0, description="The same of a fast one.")
    failures_per_day: Annotated[FiniteNumber, Field(ge=1e-6, le=1e5)] | None = Field(
        default=None, description="Of the GPUs in use together, as observed."
    )
    gpu_mtbf_hours: Hours | None = Field(
        default=None, description="Mean time between failures of one GPU; default 50,700."
    )
    node_mtbf_hours: Hours | None = Field(
        default=None, description="Mean time between failures of one node, instead."
    )
    detection_s: Seconds = Field(
        default=600.0, description="From a failure until it is noticed (PyTorch's NCCL timeout)."
    )
    reschedule_s: Seconds = Field(
        default=300.0, description="From then until the ranks run again and load."
    )
    load_s: Seconds | None = Field(
        default=None, description="To load a full checkpoint; default: by size and rate."
    )
    iteration_ns: PositiveWhole | None = Field(
        default=None,
        description="A checkpoint is written at an iteration's end; default: the step time that "
        "is estimated.",
    )
    preemption_notice_s: Annotated[FiniteNumber, Field(gt=0, le=1e7)] | None = Field(
        default=None, description="How long before it takes a node the provider says so."
    )


def check_one_rate(request: CheckpointsRequest) -> None:
    """Raise `SpecError` where failures are told in more than one way."""
    given = [name for name in FAILURE_RATES if getattr(request, name) is not None]
    if len(given) > 1:
        raise SpecError((given[1],), f"contradicts `{given[0]}`.", "Give one of the two.")
