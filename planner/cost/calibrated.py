"""A calibration as part of a cluster document: what runs on this kind of GPU were measured to reach
of the peak rates, and by how much their memory exceeded the formulas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from planner.cost.note import Note, note
from planner.cost.offload.host_tiers import Share
from planner.documents import Document, FiniteNumber, PositiveWhole, Refused

FITTED_FACTORS = ("compute", "pcie", "nvlink", "network")
"""The shares of peak rates that runs tell apart; that of device memory they do not."""
MOST_MARGIN = 1.5
BUILT_IN_FACTORS = "built-in factors"
_ON_REQUEST = "A calibration is used where `cluster.calibration` names one."

_ALWAYS_THERE = ("gpu", "version", "runs")

Margin = Annotated[FiniteNumber, Field(ge=1, le=MOST_MARGIN)]
Error = Annotated[FiniteNumber, Field(ge=0)]


class FittedEfficiency(Document):
    """Shares of the peak rates; those that runs say nothing of are absent."""

    compute: Share | None = None
    pcie: Share | None = None
    nvlink: Share | None = None
    network: Share | None = None


class CalibrationDocument(Document):
    """A version of a GPU's calibration. It counts where the cluster gives nothing itself."""

    gpu: str = Field(min_length=1, max_length=100, description="The kind of GPU.")
    version: PositiveWhole
    runs: PositiveWhole = Field(description="How many runs it was fitted to.")
    efficiency: FittedEfficiency = FittedEfficiency()
    memory_margin: Margin | None = Field(
        default=None, description="Measured peak memory over the predicted one."
    )
    error_before: Error | None = Field(
        default=None, description="Median relative error of stage times with the built-in factors."
    )
    error_after: Error | None = Field(default=None, description="The same with these factors.")
    basis: Literal["left_out", "in_sample"] = Field(
        default="in_sample",
        description="Whether `error_after` is of runs that were left out of the fit.",
    )


def _in_full(value: Any) -> Any:
    if isinstance(value, (str, int)):
        raise Refused(
            "names a calibration that only the service knows, in `cluster`",
            "Post it there, or give the calibration's `use` document in full.",
        )
    if isinstance(value, Mapping):
        lacking = [name for name in _ALWAYS_THERE if name not in value]
        if lacking:
            raise Refused(
                f"is no whole calibration: it lacks {', '.join(lacking)}",
                'Give "latest", the number of a version, or the whole `use` document of an answer '
                "of GET /v1/calibrations.",
            )
    return value


Calibration = Annotated[
    CalibrationDocument,
    BeforeValidator(
        _in_full, json_schema_input_type=CalibrationDocument | Literal["latest"] | PositiveWhole
    ),
]


def calibration_of(cluster: Any) -> Any:
    """The calibration that a cluster document names, if any; answers of requests with one say so,
    and are kept apart from others."""
    return cluster.get("calibration") if isinstance(cluster, Mapping) else None


def factor_note(calibration: CalibrationDocument | None, given: tuple[str, ...]) -> Note:
    """Which shares of peak rates an answer rests on; `given` are those that its body gives."""
    own = f" Given with the request: {', '.join(given)}." if given else ""
    if calibration is None:
        value = "given" if len(given) == len(FITTED_FACTORS) + 1 else BUILT_IN_FACTORS
        return note("efficiency factors", value, f"{_ON_REQUEST}{own}")
    runs = f"{calibration.runs} run{'s' if calibration.runs > 1 else ''}"
    return note(
        "efficiency factors",
        f"calibration {calibration.version} of {calibration.gpu}",
        f"Fitted to {runs}{_errors(calibration)}.{own}",
    )


def _errors(calibration: CalibrationDocument) -> str:
    before, after = calibration.error_before, calibration.error_after
    if before is None or after is None:
        return "; no stage times among them"
    how = {"left_out": "each run predicted from the others", "in_sample": "of the fitted run"}
    return (
        f"; median error of stage times {before:.1%} before, {after:.1%} after "
        f"({how[calibration.basis]})"
    )
