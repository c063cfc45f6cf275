"""Settings of offloading that follow from what transfers to the host are measured to take.

`offload_time_factor`
    measured over nominal time of a copy, where the runtime hides part of it; within 0.7 to 1,
    since a link that is slower than nominal is no matter of hiding: the fresh problem has the
    measured times themselves, and is never scaled by the factor once more.
`backward_delay_tolerance_ns` (AdaOffload's T)
    how long one more forward may keep the first backward waiting: with memory full it starts when
    the offload that makes room has ended, at most one offload later, and takes its own time. The
    longest of any stage that offloads.
`chunk_bytes`
    sqrt(A B T) of `planner.estimates.offload.chunking`, with the measured bandwidth as B.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from planner.cost.routes import Route
from planner.estimates.offload.chunking import best_chunking
from planner.following.estimates import Estimates
from planner.following.profile import planned
from planner.pipeline.problem import PipelineProblem

LEAST_FACTOR = 0.7
COPY_START_S = 6e-6
"""What starting a copy costs; as the latency of a link where a cluster names none."""
NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class AdaptedStage:
    """One stage whose offload is measured. Rates are bytes per second of one micro-batch's copy."""

    stage: int
    offload_bytes_per_s: float
    offload_time_factor: float
    chunk_bytes: int


@dataclass(frozen=True, slots=True)
class Adapted:
    """What measured copies say about the settings of offloading; None and empty without any."""

    backward_delay_tolerance_ns: int | None
    stages: tuple[AdaptedStage, ...]

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    def solver(self) -> dict[str, float]:
        """What to merge into a request's `solver`."""
        if self.backward_delay_tolerance_ns is None:
            return {}
        return {"backward_delay_tolerance_ms": self.backward_delay_tolerance_ns / 1e6}


def adapted(base: PipelineProblem, estimates: Estimates) -> Adapted:
    """From the estimates of a run; `base` says what copies take nominally."""
    stages = []
    tolerance_ns: list[float] = []
    for s, stage in enumerate(base.stages):
        size = round(median(stage.offload_bytes))
        measured = estimates.get((s, "offload_ns"))
        nominal_ns = planned(base, (s, "offload_ns"))
        if measured is None or nominal_ns is None or size == 0 or measured.value <= 0:
            continue
        rate = size * NS_PER_S / measured.value
        share = measured.value / nominal_ns if nominal_ns else 1.0
        chunking = best_chunking(size, Route(rate, COPY_START_S, rate))
        stages.append(
            AdaptedStage(s, rate, min(1.0, max(LEAST_FACTOR, share)), chunking.chunk_bytes)
        )
        forward = estimates.get((s, "forward_ns"))
        forward_ns = median(stage.forward_ns) if forward is None else forward.value
        tolerance_ns.append(measured.value + forward_ns)
    return Adapted(round(max(tolerance_ns)) if tolerance_ns else None, tuple(stages))
