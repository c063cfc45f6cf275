"""Whether what is measured has moved away from what the running plan was made for.

Per stage and quantity, in units of its own noise, two tests:

* Two windows: the estimate now against the one that the plan was made for. The difference has to
  be `SIGNIFICANT` times its standard error, both estimates' errors added as squares; more where
  few samples tell the spread, as Student's t has it (`FEW_SAMPLES`).
* CUSUM (Page 1954, Biometrika 41) over the window's single samples, for slow drift that no median
  of the window shows yet: deviations from the old value in robust standard deviations, clipped at
  +-4 so that outliers weigh little, less an allowance, add up to `CUSUM_LIMIT` on one side. The
  allowance is half a deviation (best for a shift of one), but never less than what the old
  value's own error and half of `LEAST_SHIFT` explain. It needs `CUSUM_SAMPLES`, and the
  estimate to differ by `DIFFERS` standard errors.

Whatever is smaller than `LEAST_SHIFT` is no drift, however certain: it cannot make a plan that is
worth a swap. Nor is what fewer than `LEAST_DRIFTED_SAMPLES` say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, sqrt

from planner.following.estimates import CLIPPED_AT, Estimate, Estimates, Key
from planner.following.profile import planned
from planner.following.telemetry import MEMORY_DELTAS, TIMES
from planner.pipeline.problem import PipelineProblem

SIGNIFICANT = 5.0
"""Standard errors; of hundreds of quantities at every look hardly one gets here by chance."""
DIFFERS = 3.0
"""The same for the regular look, which nothing but time has asked for."""
FEW_SAMPLES = 6.0
"""With n samples a difference has to be 1 + this / n times as large."""
LEAST_SHIFT = 0.01
LEAST_DRIFTED_SAMPLES = 8
CUSUM_SAMPLES = 40
CUSUM_LIMIT = 12.0
CUSUM_ALLOWANCE = 0.5


@dataclass(frozen=True, slots=True)
class Drift:
    """A quantity of a stage that has moved from `before` to `after`, both in its unit. `noise` is
    the standard error of their difference; `since` the first iteration of the new level."""

    kind: str
    stage: int
    quantity: str
    before: float
    after: float
    noise: float
    since: int

    @property
    def shift(self) -> float:
        """The change as a share of the value before."""
        return _shift(self.before, self.after)

    def __str__(self) -> str:
        change = (
            f"{self.shift:+.1%}" if abs(self.shift) != inf else f"{self.after - self.before:+g}"
        )
        return f"{self.quantity} of stage {self.stage} {change} since iteration {self.since}"


def expected(problem: PipelineProblem, anchor: Estimates, key: Key) -> Estimate | None:
    """What a plan for `problem` with the estimates of `anchor` was made for: the estimate, or what
    the problem says, which is exact; None where neither says anything."""
    known = anchor.get(key)
    if known is not None:
        return known
    value = planned(problem, key)
    return None if value is None else Estimate(value, 0.0, 0.0, 0, 0, 0)


def drifts(
    problem: PipelineProblem,
    anchor: Estimates,
    estimates: Estimates,
    series: Mapping[Key, Mapping[int, float]],
    significant: float = SIGNIFICANT,
) -> list[Drift]:
    """What has drifted, the largest shift first; `series` are the window's samples by iteration."""
    found = [
        drift
        for key, estimate in estimates.items()
        if key[1] in TIMES or key[1] in MEMORY_DELTAS
        for drift in _drift(problem, anchor, key, estimate, series.get(key, {}), significant)
    ]
    return sorted(found, key=lambda drift: (-abs(drift.shift), drift.stage, drift.quantity))


def has_moved(before: Estimate, after: Estimate, significant: float = SIGNIFICANT) -> bool:
    """The test of two windows."""
    if abs(_shift(before.value, after.value)) < LEAST_SHIFT:
        return False
    needed = significant * (1 + FEW_SAMPLES / max(1, after.samples))
    return abs(after.value - before.value) > needed * _noise(before, after)


def drifts_up_or_down(values: Iterable[float], before: Estimate, spread: float) -> bool:
    """The CUSUM test of samples in order, of which single ones spread by `spread`."""
    if spread == 0:
        return False
    allowance = max(
        CUSUM_ALLOWANCE, (2 * before.error + abs(before.value) * LEAST_SHIFT / 2) / spread
    )
    up = down = 0.0
    for value in values:
        deviation = max(-CLIPPED_AT, min(CLIPPED_AT, (value - before.value) / spread))
        up = max(0.0, up + deviation - allowance)
        down = max(0.0, down - deviation - allowance)
        if max(up, down) > CUSUM_LIMIT:
            return True
    return False


def _drift(
    problem: PipelineProblem,
    anchor: Estimates,
    key: Key,
    estimate: Estimate,
    series: Mapping[int, float],
    significant: float,
) -> Iterator[Drift]:
    before = expected(problem, anchor, key)
    if before is None or estimate.samples < LEAST_DRIFTED_SAMPLES:
        return
    if has_moved(before, estimate, significant) or (
        has_moved(before, estimate, DIFFERS)
        and estimate.samples >= CUSUM_SAMPLES
        and drifts_up_or_down(
            (series[i] for i in sorted(series) if i >= estimate.since), before, estimate.spread
        )
    ):
        yield Drift(
            kind="memory_drift" if key[1] in MEMORY_DELTAS else "stage_time_drift",
            stage=key[0],
            quantity=key[1],
            before=before.value,
            after=estimate.value,
            noise=_noise(before, estimate),
            since=estimate.since,
        )


def _shift(before: float, after: float) -> float:
    if before == after:
        return 0.0
    return (after - before) / abs(before) if before else inf


def _noise(before: Estimate, after: Estimate) -> float:
    return sqrt(before.error**2 + after.error**2)
