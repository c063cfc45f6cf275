"""How a pipeline problem is to be solved."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool

from planner.documents import Document, FiniteNumber, PositiveWhole, WholeNumber

Engine = Literal["cbc", "highs"]
OffloadStrategy = Literal["aggressive", "conservative"]

DEFAULT_ENGINE: Engine = "cbc"
NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class SolveOptions:
    """Settings of one solve. `mip_gap` is relative; None leaves a choice to the planner."""

    engine: Engine = DEFAULT_ENGINE
    time_limit_s: float = 60.0
    mip_gap: float = 0.0
    threads: int = 1
    backward_delay_tolerance_ns: int = 5 * NS_PER_MS
    offload_strategy: OffloadStrategy | None = None
    offload_threshold: float | None = None
    milp_window_micro_batches: int | None = None
    adaoffload_warm_start: bool = True

    def to_document(self) -> dict[str, Any]:
        """All settings, defaults written out."""
        return asdict(self)


class SolverDocument(Document):
    """The `solver` part of a request."""

    engine: Engine | None = Field(
        default=None, description="`cbc` or `highs`; without one the default engine solves."
    )
    time_limit_s: Annotated[FiniteNumber, Field(gt=0)] = Field(
        default=60.0, description="Seconds from the solver's start to the answer."
    )
    mip_gap: Annotated[FiniteNumber, Field(ge=0, lt=1)] = Field(
        default=0.0, description="Stop when the best plan is within this share of the bound."
    )
    threads: Annotated[PositiveWhole, Field(le=64)] = Field(
        default=1, description="Threads of the MILP engine."
    )
    backward_delay_tolerance_ms: Annotated[FiniteNumber, Field(ge=0, le=60_000)] = Field(
        default=5.0, description="How far AdaOffload may delay the first backwards."
    )
    offload_strategy: OffloadStrategy | None = Field(
        default=None,
        description="AdaOffload offloads wherever the link is free (`aggressive`), or only where "
        "memory needs it (`conservative`); without one both are tried and the better is kept.",
    )
    offload_threshold: Annotated[FiniteNumber, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="Share of a device's activation memory above which AdaOffload offloads.",
    )
    milp_window_micro_batches: Annotated[WholeNumber, Field(ge=2)] | None = Field(
        default=None,
        description="The MILP reorders windows of this many micro-batches instead of all at once.",
    )
    adaoffload_warm_start: StrictBool = Field(
        default=True, description="Whether the MILP starts from AdaOffload's schedule."
    )

    def resolve(self) -> SolveOptions:
        """The settings that the planner works with."""
        return SolveOptions(
            engine=self.engine or DEFAULT_ENGINE,
            time_limit_s=self.time_limit_s,
            mip_gap=self.mip_gap,
            threads=self.threads,
            backward_delay_tolerance_ns=round(self.backward_delay_tolerance_ms * NS_PER_MS),
            offload_strategy=self.offload_strategy,
            offload_threshold=self.offload_threshold,
            milp_window_micro_batches=self.milp_window_micro_batches,
            adaoffload_warm_start=self.adaoffload_warm_start,
        )
