"""How a training plan is to be found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import Field

from planner.documents import Document, FiniteNumber, PositiveWhole, WholeNumber
from planner.pipeline.options import Engine

DEFAULT_ENGINE: Engine = "auto"
DEFAULT_TIME_LIMIT_S = 60.0


@dataclass(frozen=True)
class SolveOptions:
    """Settings of one solve; engine, gap, threads and seed are those of the finalists' schedules.
    `mip_gap` is relative."""

    engine: Engine = DEFAULT_ENGINE
    time_limit_s: float = DEFAULT_TIME_LIMIT_S
    mip_gap: float = 0.0
    threads: int = 2
    seed: int = 0

    def to_document(self) -> dict[str, Any]:
        """All settings, defaults written out, as JSON."""
        return asdict(self)


def read_options(document: Mapping[str, Any]) -> SolveOptions:
    """The settings that `SolveOptions.to_document` wrote."""
    return SolveOptions(**document)


class SolverDocument(Document):
    """The `solver` part of a request for a training plan."""

    engine: Engine | None = Field(
        default=None, description="Of the finalists' schedules, as for a pipeline schedule."
    )
    time_limit_s: Annotated[FiniteNumber, Field(gt=0)] = Field(
        default=DEFAULT_TIME_LIMIT_S, description="Seconds from the solver's start to the answer."
    )
    mip_gap: Annotated[FiniteNumber, Field(ge=0, lt=1)] = Field(
        default=0.0, description="A schedule within this share of its bound is good enough."
    )
    threads: Annotated[PositiveWhole, Field(le=64)] = 2
    seed: WholeNumber = Field(default=0, description="Of everything that is drawn at random.")

    def resolve(self) -> SolveOptions:
        """The settings that the planner works with."""
        return SolveOptions(
            engine=self.engine or DEFAULT_ENGINE,
            time_limit_s=self.time_limit_s,
            mip_gap=self.mip_gap,
            threads=self.threads,
            seed=self.seed,
        )
