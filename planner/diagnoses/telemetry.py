"""Telemetry of a training run, and what is made of it: robust numbers per stage.

Times are those of one micro-batch. Nothing is averaged over stages, and medians are taken over
iterations, so that single outliers count for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

WARM_UP_ITERATIONS = 20
"""Iterations before this one are left aside where there are later ones: allocators, caches and
compilers settle in them."""
HEAT_UP_SAMPLES = 9
"""With fewer iterations nothing is said about how times change in the course of them."""


@dataclass(frozen=True, slots=True)
class StageSample:
    """What a stage reports of one iteration, times in ns; what it does not report is None."""

    stage: int
    forward_ns: int | None = None
    backward_input_ns: int | None = None
    backward_weight_ns: int | None = None
    offload_ns: int | None = None
    reload_ns: int | None = None
    peak_memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    link_busy_share: float | None = None
    gpu_utilisation: float | None = None

    @property
    def compute_ns(self) -> int | None:
        """F + B + W of one micro-batch; None without F or B."""
        if self.forward_ns is None or self.backward_input_ns is None:
            return None
        return self.forward_ns + self.backward_input_ns + (self.backward_weight_ns or 0)


@dataclass(frozen=True, slots=True)
class IterationSample:
    """What is known of one iteration, which took `iteration_ns`."""

    iteration: int
    stages: tuple[StageSample, ...]
    iteration_ns: int | None = None


@dataclass(frozen=True)
class StageProfile:
    """A stage over all iterations, in order of time."""

    stage: int
    samples: tuple[StageSample, ...]

    def _median_ns(self, name: str) -> int | None:
        """The median of a time; None where it was never reported."""
        times: list[int | None] = [getattr(sample, name) for sample in self.samples]
        values = [time_ns for time_ns in times if time_ns is not None]
        return round(median(values)) if values else None

    @cached_property
    def forward_ns(self) -> int | None:
        return self._median_ns("forward_ns")

    @cached_property
    def backward_input_ns(self) -> int | None:
        return self._median_ns("backward_input_ns")

    @cached_property
    def backward_weight_ns(self) -> int | None:
        return self._median_ns("backward_weight_ns")

    @cached_property
    def offload_ns(self) -> int | None:
        return self._median_ns("offload_ns")

    @cached_property
    def reload_ns(self) -> int | None:
        return self._median_ns("reload_ns")

    @cached_property
    def compute_ns(self) -> int | None:
        """F + B + W of one micro-batch; None without F or B."""
        if self.forward_ns is None or self.backward_input_ns is None:
            return None
        return self.forward_ns + self.backward_input_ns + (self.backward_weight_ns or 0)

    @cached_property
    def peak_memory_bytes(self) -> int | None:
        """The largest, since one iteration without memory ends the run."""
        peaks = [s.peak_memory_bytes for s in self.samples if s.peak_memory_bytes is not None]
        return max(peaks, default=None)

    @cached_property
    def memory_limit_bytes(self) -> int | None:
        """The last that was reported."""
        limits = [s.memory_limit_bytes for s in self.samples if s.memory_limit_bytes is not None]
        return limits[-1] if limits else None

    @cached_property
    def link_busy_share(self) -> float | None:
        shares = [s.link_busy_share for s in self.samples if s.link_busy_share is not None]
        return median(shares) if shares else None

    @cached_property
    def utilisations(self) -> list[float]:
        return [s.gpu_utilisation for s in self.samples if s.gpu_utilisation is not None]

    @cached_property
    def heat_up(self) -> float | None:
        """Computation in the last third of the iterations over that in the first, less 1."""
        times = [time for sample in self.samples if (time := sample.compute_ns) is not None]
        if len(times) < HEAT_UP_SAMPLES:
            return None
        third = len(times) // 3
        first, last = median(times[:third]), median(times[-third:])
        return last / first - 1 if first else None


@dataclass(frozen=True)
class Profile:
    """Telemetry by stage, ascending; `iterations_ns` in order of time.

    `lost` are stages that stopped reporting while others went on, each with the iterations that it
    is behind.
    """

    stages: Mapping[int, StageProfile]
    iterations_ns: Sequence[int]
    iterations: int
    dropped: int
    lost: Mapping[int, int]


def profile_of(telemetry: Sequence[IterationSample]) -> Profile | None:
    """What the samples come to; None without any that has stages.

    Ranks may report an iteration one by one. Of a stage of an iteration that is given twice the
    first counts.
    """
    stages: dict[int, dict[int, StageSample]] = {}
    spans_ns: dict[int, int] = {}
    for sample in telemetry:
        own = stages.setdefault(sample.iteration, {})
        for stage in sample.stages:
            own.setdefault(stage.stage, stage)
        if sample.iteration_ns is not None:
            spans_ns.setdefault(sample.iteration, sample.iteration_ns)
    ordered = sorted(stages)
    kept = [number for number in ordered if number >= WARM_UP_ITERATIONS] or ordered
    rows: dict[int, list[StageSample]] = {}
    last_seen: dict[int, int] = {}
    for number in kept:
        for stage in stages[number].values():
            rows.setdefault(stage.stage, []).append(stage)
            last_seen[stage.stage] = number
    if not rows:
        return None
    newest = max(last_seen.values())
    return Profile(
        stages={s: StageProfile(s, tuple(rows[s])) for s in sorted(rows)},
        iterations_ns=[spans_ns[number] for number in kept if number in spans_ns],
        iterations=len(kept),
        dropped=len(ordered) - len(kept),
        lost={s: newest - seen for s, seen in sorted(last_seen.items()) if seen < newest},
    )


def quantile(values: Sequence[float], share: float) -> float:
    """By nearest rank, of a list that is not empty."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1))]
