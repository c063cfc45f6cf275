"""What a run measured beside what the cost model predicts for it, whatever the factors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.following.telemetry import COMPUTE_TIMES, OFFLOAD_TIMES, TRANSFER_TIMES

TERMS = (*COMPUTE_TIMES, *OFFLOAD_TIMES, *TRANSFER_TIMES)
GROUP_OF = {
    **dict.fromkeys(COMPUTE_TIMES, "stage_times"),
    **dict.fromkeys(OFFLOAD_TIMES, "offloads"),
    **dict.fromkeys(TRANSFER_TIMES, "transfers"),
}
LEAST_SHARE = 0.25
"""Of a predicted time: what depends on a factor by less says nothing of it."""
Factors = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Term:
    """One time of a stage (ns per micro-batch), measured and predicted.

    The cost model divides work by peak rate times factor, so that with factors e it predicts
    `fixed_ns` + the sum of `work_ns[k]` / e[k]: `work_ns` is what each part takes at its peak rate.
    """

    stage: int
    quantity: str
    measured_ns: float
    fixed_ns: float
    work_ns: Mapping[str, float]

    def predicted_ns(self, factors: Factors) -> float:
        """With these factors."""
        return self.fixed_ns + sum(self.work_ns[k] / factors[k] for k in self.work_ns)

    def owner(self, built_in: Factors) -> str | None:
        """The factor that this time tells of: the share of peak FLOPs for computation, for other
        times that of the link that takes the most; None where that is too little of it."""
        parts = {k: work / built_in[k] for k, work in self.work_ns.items()}
        if GROUP_OF[self.quantity] == "stage_times":
            parts = {k: part for k, part in parts.items() if k == "compute"}
        else:
            parts.pop("compute", None)
        most = max(parts, key=lambda k: (parts[k], k), default=None)
        if most is None or parts[most] < LEAST_SHARE * self.predicted_ns(built_in):
            return None
        return most

    def implied(self, name: str, factors: Factors) -> float:
        """The factor called `name` with which the prediction is what was measured, the others being
        these; 1 where even the peak rate would be too slow for that."""
        others_ns = self.predicted_ns(factors) - self.work_ns[name] / factors[name]
        left_ns = self.measured_ns - others_ns
        return 1.0 if left_ns <= self.work_ns[name] else self.work_ns[name] / left_ns

    def error(self, factors: Factors) -> float:
        """The relative error of the prediction."""
        return abs(self.predicted_ns(factors) - self.measured_ns) / self.measured_ns


@dataclass(frozen=True, slots=True)
class Peak:
    """A device's most bytes in use at once: model states and activations."""

    device: int
    measured_bytes: float
    predicted_bytes: float

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.measured_bytes / self.predicted_bytes


@dataclass(frozen=True, slots=True)
class Observation:
    """One run on one kind of GPU. `built_in` are the factors without a calibration."""

    run: str
    gpu: str
    built_in: Factors
    terms: tuple[Term, ...]
    peaks: tuple[Peak, ...] = ()

    def terms_of(self, name: str) -> list[Term]:
        """Those that tell of this factor."""
        return [term for term in self.terms if term.owner(self.built_in) == name]
