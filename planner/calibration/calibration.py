"""A calibration: fitted factors and margin of one kind of GPU, with what they are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal

DIGITS = 6


@dataclass(frozen=True, slots=True)
class ErrorPair:
    """Relative errors: the median over runs of the median of each, and the worst of all."""

    median: float
    worst: float

    @classmethod
    def of(cls, errors: Sequence[Sequence[float]]) -> ErrorPair:
        """Of the errors of each run; at least one of at least one."""
        return cls(median(map(median, errors)), max(map(max, errors)))


@dataclass(frozen=True, slots=True)
class Errors:
    """Of predicted times with the built-in factors and with the fitted ones. `basis` says whether
    the latter were fitted without the run that they are tried on (`left_out`)."""

    before: ErrorPair
    after: ErrorPair
    samples: int
    runs: int
    basis: Literal["left_out", "in_sample"]


@dataclass(frozen=True, slots=True)
class FittedFactor:
    """A share of a peak rate, in (0, 1]. `spread` is the relative standard deviation between runs
    (None of a single one), `confidence` the chance that it is within 5 %."""

    value: float
    built_in: float
    is_fitted: bool
    runs: int
    samples: int
    spread: float | None
    confidence: float
    reason: str


@dataclass(frozen=True, slots=True)
class FittedMargin:
    """Measured over predicted peak memory, at least 1. `error` is of the predicted peaks; `short`
    and `short_after` are by which share of the measured peak predictions were too low, without and
    with the margin (that of the other runs, where there are others)."""

    value: float
    runs: int
    samples: int
    error: ErrorPair | None
    short: ErrorPair | None
    short_after: ErrorPair | None
    reason: str


@dataclass(frozen=True)
class Calibration:
    """What runs on one kind of GPU say of the cost model. `errors` are by group of times."""

    gpu: str
    runs: tuple[str, ...]
    factors: Mapping[str, FittedFactor]
    margin: FittedMargin
    errors: Mapping[str, Errors | None]

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        document: dict[str, Any] = _rounded(
            {
                "factors": {name: asdict(own) for name, own in self.factors.items()},
                "memory_margin": asdict(self.margin),
                "errors": {name: own and asdict(own) for name, own in self.errors.items()},
            }
        )
        return document

    def use(self, version: int) -> dict[str, Any]:
        """What a cluster document has in `calibration` to be resolved with it."""
        times = self.errors["stage_times"]
        fitted = {name: own.value for name, own in self.factors.items() if own.is_fitted}
        document: dict[str, Any] = {
            "gpu": self.gpu,
            "version": version,
            "runs": len(self.runs),
            "efficiency": fitted,
        }
        if self.margin.value > 1:
            document["memory_margin"] = self.margin.value
        if times is not None:
            document["error_before"] = times.before.median
            document["error_after"] = times.after.median
            document["basis"] = times.basis
        rounded: dict[str, Any] = _rounded(document)
        return rounded


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(own) for name, own in value.items()}
    return round(value, DIGITS) if isinstance(value, float) else value
