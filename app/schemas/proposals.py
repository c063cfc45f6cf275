"""Other shapes of a training run that would be faster."""

from __future__ import annotations

from pydantic import BaseModel, Field

from planner.following.shapes import Kind


class BaselineView(BaseModel):
    """What a rule of thumb would make of the run."""

    rule: str
    micro_batches: int
    micro_batch_size: int | None = Field(
        description="Null where samples are not known, and where they do not divide."
    )
    predicted_ns: int | None = Field(description="Null where there is none, see `reason`.")
    reason: str | None


class ProposalView(BaseModel):
    """Another shape that would be faster: micro-batches, layers per stage, or both. Times are those
    of an iteration."""

    kind: Kind
    micro_batches: int
    micro_batch_size: int | None = Field(description="Null where samples are not known.")
    layers_per_stage: list[int] | None = Field(description="Null where no layer moves.")
    predicted_ns: int
    running_ns: int | None = Field(
        description="Of the running order on the profile; null where it no longer fits."
    )
    same_shape_ns: int | None = Field(
        description="Of the best quick order without a change; null where none fits."
    )
    lower_bound_ns: int
    predicted_gain: float | None = Field(
        description="Of the time of the running order; null where that no longer fits."
    )
    found_by: str
    needs_restart: bool
    baseline: BaselineView | None
    reason: str
    notes: list[str]


class ProposalsView(BaseModel):
    """What another shape of the run would bring, best first."""

    imbalance: float = Field(description="Time of the slowest stage over that of the fastest.")
    threshold: float
    proposals: list[ProposalView]
    notes: list[str] = Field(
        default=[],
        description="What the times rest on; what is not proposed and why; the rule of thumb "
        "without a gain.",
    )
