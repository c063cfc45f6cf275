"""How a run wants to be followed: the `follow` part of a run's body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationError

from planner.documents import Document, FiniteNumber, PositiveWhole, WholeNumber, spec_error_from

LONGEST_WINDOW = 200
LONGEST_WARM_UP, LONGEST_SWAP_LEAD = 100_000, 10_000
MOST_RANKS = 100_000


class FollowSettings(Document):
    """When to solve again, what a new plan has to bring, and how it is swapped in."""

    resolve_every: PositiveWhole = Field(
        default=50,
        description="Iterations between two looks for a better plan on a profile that has moved "
        "by more than its noise.",
    )
    warm_up: Annotated[WholeNumber, Field(le=LONGEST_WARM_UP)] = Field(
        default=20,
        description="Iterations after the start that are not measured: allocators, kernels and "
        "links settle.",
    )
    window: Annotated[PositiveWhole, Field(ge=10, le=LONGEST_WINDOW)] = Field(
        default=100, description="Newest iterations that estimates are made from."
    )
    min_gain: Annotated[FiniteNumber, Field(ge=0, lt=1)] = Field(
        default=0.02,
        description="Share of the iteration that a new plan has to save, beyond the noise of the "
        "profile, before it is published. Doubles with every plan that was rolled back.",
    )
    memory_headroom: Annotated[FiniteNumber, Field(ge=0, lt=1)] = Field(
        default=0.02, description="Share of each activation memory that new plans leave free."
    )
    swap_lead: Annotated[PositiveWhole, Field(le=LONGEST_SWAP_LEAD)] = Field(
        default=10,
        description="Iterations between the last acknowledgement of a plan and the iteration that "
        "it applies from; also how long acknowledgements are waited for in a run that never sent "
        "any.",
    )
    solve_time_limit_s: Annotated[FiniteNumber, Field(gt=0, le=3600)] = Field(
        default=30.0, description="Seconds that a new plan is looked for in the background."
    )
    link_busy_limit: Annotated[FiniteNumber, Field(gt=0, le=1)] = Field(
        default=0.85, description="Busy share of a host link above which a new plan is looked for."
    )
    ranks: Annotated[PositiveWhole, Field(le=MOST_RANKS)] | None = Field(
        default=None,
        description="Ranks that have to acknowledge a plan before it applies; without it as many "
        "as there are devices.",
    )
    measure_over: Annotated[PositiveWhole, Field(ge=5, le=LONGEST_WINDOW // 2)] = Field(
        default=20, description="Iterations after a swap over which its gain is measured."
    )
    cool_down: WholeNumber | None = Field(
        default=None,
        description="Iterations without a new look after a swap, a roll-back, a plan that was "
        "refused or a solve that failed; after each of the last two in a row twice as many as "
        "before, up to 16 times the longer of this and `resolve_every`, until something has "
        "changed. Without it `resolve_every`.",
    )

    @property
    def cool_down_iterations(self) -> int:
        """`cool_down`, or its default."""
        return self.resolve_every if self.cool_down is None else self.cool_down


def read_follow(
    raw: Mapping[str, Any], path: tuple[str | int, ...] = ("follow",)
) -> FollowSettings:
    """The settings of a `follow` part. Raises `SpecError` that names the field at fault."""
    try:
        return FollowSettings.model_validate(raw)
    except ValidationError as error:
        raise spec_error_from(error, path) from error
