"""Bodies and answers about calibrations of the cost model."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from planner.cost.calibrated import CalibrationDocument

MOST_RUNS = 50
RunId = Annotated[str, Field(min_length=1, max_length=36)]


class CalibrationRequest(BaseModel):
    """What to fit to."""

    model_config = ConfigDict(extra="forbid", strict=True)

    gpu: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="The kind of GPU, such as `H100`; absent = that of the runs, if they agree.",
    )
    runs: Annotated[list[RunId], Field(min_length=1, max_length=MOST_RUNS)] | None = Field(
        default=None, description=f"Ids of runs; absent = the newest {MOST_RUNS}."
    )


class ErrorPairView(BaseModel):
    """Relative errors."""

    median: float
    worst: float


class ErrorsView(BaseModel):
    """Of predicted times: with the built-in factors, and with the fitted ones."""

    before: ErrorPairView
    after: ErrorPairView
    samples: int
    runs: int
    basis: Literal["left_out", "in_sample"] = Field(
        description="Whether `after` is of runs that were left out of the fit."
    )


class FactorView(BaseModel):
    """A share of a peak rate."""

    value: float
    built_in: float
    is_fitted: bool = Field(description="Else the built-in factor stays, and `reason` says why.")
    runs: int
    samples: int
    spread: float | None = Field(description="Relative standard deviation between runs.")
    confidence: float = Field(description="The chance that it is within 5 %; 0 if not fitted.")
    reason: str


class MarginView(BaseModel):
    """Measured over predicted peak memory, at least 1."""

    value: float
    runs: int
    samples: int
    error: ErrorPairView | None = Field(description="Of predicted peaks.")
    short: ErrorPairView | None = Field(
        description="By which share of the measured peak predictions were too low."
    )
    short_after: ErrorPairView | None = Field(description="The same with the margin.")
    reason: str


class ErrorsByGroup(BaseModel):
    """Errors of each kind of times; null where no run reports such."""

    stage_times: ErrorsView | None
    transfers: ErrorsView | None
    offloads: ErrorsView | None


class FactorsView(BaseModel):
    """The factors that runs tell apart."""

    compute: FactorView
    pcie: FactorView
    nvlink: FactorView
    network: FactorView


class CountedRun(BaseModel):
    """A run that was fitted to, and what its own times and peaks imply."""

    id: str
    name: str | None
    samples: int
    factors: dict[str, float]
    peak_ratio: float | None


class LeftOutRun(BaseModel):
    """A run that does not count."""

    id: str
    name: str | None
    reason: str


class CalibrationLinks(BaseModel):
    """Where to go from here."""

    self: str
    versions: str


class CalibrationItem(BaseModel):
    """A version in brief."""

    gpu: str
    version: int
    created_at: datetime
    runs: int
    factors: dict[str, float] = Field(description="Those that were fitted.")
    memory_margin: float
    errors: ErrorsByGroup
    links: CalibrationLinks


class FitView(BaseModel):
    """A fit of the cost model's factors to runs."""

    gpu: str
    factors: FactorsView
    memory_margin: MarginView
    errors: ErrorsByGroup
    runs: list[CountedRun]
    left_out: list[LeftOutRun]


class CalibrationView(FitView):
    """A version."""

    version: int
    created_at: datetime
    use: CalibrationDocument = Field(
        description="What `calibration` of a cluster stands for in full."
    )
    links: CalibrationLinks


class CalibrationList(BaseModel):
    """The newest version of each kind of GPU."""

    calibrations: list[CalibrationItem]


class CalibrationVersions(BaseModel):
    """All versions of a kind of GPU that are kept, newest first."""

    gpu: str
    versions: list[CalibrationItem]
