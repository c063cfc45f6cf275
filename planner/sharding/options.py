"""How a sharding plan is to be found, and what it is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool

from planner.documents import Document, FiniteNumber, PositiveWhole

Engine = Literal["cbc", "highs"]

DEFAULT_ENGINE: Engine = "cbc"
DEFAULT_TIME_LIMIT_S = 60.0


@dataclass(frozen=True)
class SolveOptions:
    """Settings of one solve. `mip_gap` is relative; `exact` writes folded layers out."""

    engine: Engine = DEFAULT_ENGINE
    time_limit_s: float = DEFAULT_TIME_LIMIT_S
    mip_gap: float = 0.0
    threads: int = 2
    exact: bool = False
    reductions: bool = True

    def to_document(self) -> dict[str, Any]:
        """All settings, defaults written out, as JSON."""
        return asdict(self)


def read_options(document: Mapping[str, Any]) -> SolveOptions:
    """The settings that `SolveOptions.to_document` wrote."""
    return SolveOptions(**document)


class SolverDocument(Document):
    """The `solver` part of a request for a sharding plan."""

    engine: Engine | None = Field(default=None, description="Without one: `cbc`.")
    time_limit_s: Annotated[FiniteNumber, Field(gt=0)] = Field(
        default=DEFAULT_TIME_LIMIT_S, description="Seconds from the solver's start to the answer."
    )
    mip_gap: Annotated[FiniteNumber, Field(ge=0, lt=1)] = Field(
        default=0.0, description="Stop when the best plan is within this share of the bound."
    )
    threads: Annotated[PositiveWhole, Field(le=64)] = 2
    exact: StrictBool = Field(
        default=False,
        description="Give each of identical layers strategies of its own instead of the same.",
    )
    reductions: StrictBool = Field(
        default=True,
        description="Merge operators and drop strategies where that provably keeps the optimum.",
    )

    def resolve(self) -> SolveOptions:
        """The settings that the planner works with."""
        return SolveOptions(
            engine=self.engine or DEFAULT_ENGINE,
            time_limit_s=self.time_limit_s,
            mip_gap=self.mip_gap,
            threads=self.threads,
            exact=self.exact,
            reductions=self.reductions,
        )
