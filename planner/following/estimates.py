"""Robust estimates of what a stage takes, from noisy samples of one stage and quantity at a time.

The median is what counts, since one slow iteration in ten (a checkpoint, a page fault, another
tenant) must not move it. Per stage and quantity, and never across stages: a straggler is what
there is to be seen.

1. Of the window only what comes after the last change of level counts (`_after_last_change`).
2. Samples further from the median than `OUTLIER_DEVIATIONS` robust standard deviations are left
   out. The robust standard deviation is 1.4826 x MAD, the median of absolute deviations, with the
   factors for few samples of Croux and Rousseeuw 1992 (Computational Statistics 1).
3. The standard error of a median is sqrt(pi / 2) times that of a mean (normal distribution).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import erf, inf, pi, sqrt
from statistics import median
from typing import Any

from planner.following.telemetry import (
    ITERATION_NS,
    MEMORY_DELTAS,
    MEMORY_FIGURES,
    PLAN_VERSION,
    SHARES,
    TIMES,
    Sample,
)

QUANTITIES = (*TIMES, *MEMORY_DELTAS, *MEMORY_FIGURES, *SHARES)
LEAST_SAMPLES = 5
"""Fewer say nothing about their own noise."""
OUTLIER_DEVIATIONS = 5.0
CHANGE_DEVIATIONS = 5.0
"""How significant a change of level within the window has to be, in standard errors."""
CLIPPED_AT = 4.0
"""Deviations beyond this count as this, so that single outliers make no change of level."""
SURE_WITHIN = 0.01
"""Confidence is the chance that the true median lies within this share of the estimate."""
MAD_TO_DEVIATION = 1.4826
ERROR_OF_MEDIAN = sqrt(pi / 2)
_FEW = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}

Key = tuple[int, str]
"""A stage and the name of a quantity."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The median of a quantity, with its standard error and the spread of single samples (one
    robust standard deviation), all in the quantity's unit. `since` is the first iteration that it
    rests on; `outliers` are not among `samples`."""

    value: float
    error: float
    spread: float
    samples: int
    outliers: int
    since: int

    @property
    def noise(self) -> float:
        """The relative standard error; 0 where neither value nor error is."""
        if self.error == 0:
            return 0.0
        return self.error / abs(self.value) if self.value else inf

    @property
    def confidence(self) -> float:
        """The chance (normal distribution) that the true value is within `SURE_WITHIN` of it."""
        return 1.0 if self.noise == 0 else erf(SURE_WITHIN / (self.noise * sqrt(2)))


Estimates = Mapping[Key, Estimate]


def estimates_of(
    samples: Iterable[Sample], counts: Callable[[int], bool] = lambda iteration: True
) -> dict[Key, Estimate]:
    """Estimates by stage and quantity from samples in any order, of which repeats count once.

    `counts` says which iterations do; quantities with fewer than `LEAST_SAMPLES` have none.
    """
    return estimates_of_series(series_of(samples, counts))


def estimates_of_series(series: Mapping[Key, Mapping[int, float]]) -> dict[Key, Estimate]:
    """The same from what `series_of` gives."""
    return {
        key: estimate(sorted(values.items()))
        for key, values in series.items()
        if key[1] in QUANTITIES and len(values) >= LEAST_SAMPLES
    }


def series_of(
    samples: Iterable[Sample], counts: Callable[[int], bool]
) -> dict[Key, dict[int, float]]:
    """By stage and quantity the values by iteration."""
    series: dict[Key, dict[int, float]] = defaultdict(dict)
    for sample in samples:
        if counts(sample.iteration):
            for name, value in sample.values.items():
                if name not in (ITERATION_NS, PLAN_VERSION):
                    series[sample.stage, name].setdefault(sample.iteration, value)
    return series


def estimate(series: Sequence[tuple[int, float]]) -> Estimate:
    """The estimate from (iteration, value) in order; at least one."""
    recent = _after_last_change(series)
    values = [value for _, value in recent]
    middle = median(values)
    reach = OUTLIER_DEVIATIONS * deviation(values, middle)
    kept = [value for value in values if abs(value - middle) <= reach] if reach else values
    middle = median(kept)
    spread = deviation(kept, middle)
    return Estimate(
        value=middle,
        error=ERROR_OF_MEDIAN * spread / sqrt(len(kept)),
        spread=spread,
        samples=len(kept),
        outliers=len(values) - len(kept),
        since=recent[0][0],
    )


def deviation(values: Sequence[float], middle: float) -> float:
    """The robust standard deviation about the median; 0 for a single value."""
    count = len(values)
    if count < 2:
        return 0.0
    factor = _FEW.get(count, count / (count - 0.8))
    return factor * MAD_TO_DEVIATION * median([abs(value - middle) for value in values])


def _after_last_change(series: Sequence[tuple[int, float]]) -> Sequence[tuple[int, float]]:
    """What follows the last significant change of level (binary segmentation by the CUSUM
    statistic, Page 1954; the last segment is split again until nothing is significant)."""
    while (split := _change(series)) is not None:
        series = series[split:]
    return series


def _change(series: Sequence[tuple[int, float]]) -> int | None:
    """Where the level changes most, if that is significant and both sides are long enough."""
    count = len(series)
    if count < 2 * LEAST_SAMPLES:
        return None
    values = [value for _, value in series]
    # Steps between neighbours do not see the level, so that a change of it does not hide itself.
    steps = [later - earlier for earlier, later in pairwise(values)]
    scale = MAD_TO_DEVIATION * median(map(abs, steps)) / sqrt(2)
    middle = median(values)
    if scale == 0:
        scale = abs(middle) * 1e-4 or 1.0
    clipped = [max(-CLIPPED_AT, min(CLIPPED_AT, (value - middle) / scale)) for value in values]
    mean = sum(clipped) / count
    best, where, total = CHANGE_DEVIATIONS, None, 0.0
    for k in range(1, count - LEAST_SAMPLES + 1):
        total += clipped[k - 1] - mean
        if k >= LEAST_SAMPLES:
            statistic = abs(total) / sqrt(k * (count - k) / count)
            if statistic > best:
                best, where = statistic, k
    return where


def estimates_to_document(estimates: Estimates) -> dict[str, dict[str, list[float]]]:
    """Estimates as JSON: by stage and quantity, the fields in their order."""
    document: dict[str, dict[str, list[float]]] = {}
    for (stage, name), own in estimates.items():
        document.setdefault(str(stage), {})[name] = [
            own.value,
            own.error,
            own.spread,
            own.samples,
            own.outliers,
            own.since,
        ]
    return document


def estimates_from_document(document: Mapping[str, Any]) -> dict[Key, Estimate]:
    """The estimates that `estimates_to_document` wrote."""
    return {
        (int(stage), name): Estimate(*fields)
        for stage, own in document.items()
        for name, fields in own.items()
    }
