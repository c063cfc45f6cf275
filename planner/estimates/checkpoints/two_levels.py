"""How often to checkpoint on two levels: fast ones often, full ones seldom.

k segments of T seconds of work make a cycle. The first k - 1 end with a fast checkpoint, the last
with a full one. Of the failures a share f leaves the fast checkpoints usable: training goes on
after R1 seconds at the last checkpoint of either kind. After the others it goes on after R2 seconds
at the last full one. Failures come on average every M seconds and at any time, also during
checkpoints and recoveries, of both kinds in these shares.

The mean time of a cycle follows from where training can be (Vaidya 1995; the same kind of chain
underlies Moody et al. 2010). A stretch of L seconds is interrupted with probability q = 1 -
e^(-L/M), and q M seconds of it pass in the mean. With V(i) the time still to come at the start of
segment i, V(k) = 0, U(i) after a failure that fast checkpoints survive, and W after one that they
do not:

    V(i) = q M + (1 - q) V(i+1) + q (f U(i) + (1 - f) W)          q of the segment and checkpoint
    U(i) = q1 M + (1 - q1) V(i) + q1 (f U(i) + (1 - f) W)         q1 of R1
    W    = V(0) + M (e^(R2/M) - 1)                                a recovery tried until it succeeds

which is linear in V and W. All but the last segment are alike, so that V(0) is a geometric sum.
With k = 1 and R1 = R2 it is Daly's E(T) of `intervals`.

Sources: N. H. Vaidya, A case for two-level distributed recovery schemes, SIGMETRICS 1995; A. Moody
et al., Design, modeling, and evaluation of a scalable multi-level checkpointing system, SC 2010.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import expm1, inf, log1p

from planner.estimates.checkpoints.intervals import LARGEST_EXPONENT

MOST_SEGMENTS = 100_000
GOLDEN = (5**0.5 - 1) / 2
GOLDEN_STEPS = 80


@dataclass(frozen=True, slots=True)
class Levels:
    """What checkpoints of both levels cost and save, in seconds.

    `fast_cost_s` and `full_cost_s` are what training waits for one, `fast_restart_s` and
    `full_restart_s` what passes from a failure until training goes on, `fast_share` the share of
    failures that fast checkpoints survive.
    """

    mtbf_s: float
    fast_cost_s: float
    full_cost_s: float
    fast_restart_s: float
    full_restart_s: float
    fast_share: float


@dataclass(frozen=True, slots=True)
class _Linear:
    """A time that is `own` + `slope` x W."""

    own: float
    slope: float


def cycle_s(levels: Levels, work_s: float, segments: int) -> float:
    """The mean time of a cycle of `segments` segments of `work_s` of work; infinite where failures
    come so often that it does not end."""
    full_restart = levels.full_restart_s / levels.mtbf_s
    if full_restart > LARGEST_EXPONENT:
        return inf
    fast = _segment(levels, work_s + levels.fast_cost_s)
    full = _segment(levels, work_s + levels.full_cost_s)
    if fast is None or full is None:
        return inf
    (fast_own, fast_kept), (full_own, full_kept) = fast, full
    # V(k-1) is the last segment's own; before it come k - 1 alike, each with a share of the next.
    before = fast_kept ** (segments - 1)
    total_s = fast_own.own * _alike(fast_own.slope, segments - 1) + before * full_own.own
    # A segment is either ended or lost, so that what remains of W in V(0) is never lost. As a
    # product it keeps its digits where a difference from 1 would have none.
    ends = before * full_kept
    if ends == 0:
        return inf
    recovery_s = levels.mtbf_s * expm1(full_restart)
    return (total_s + (1 - ends) * recovery_s) / ends


def _alike(lost: float, count: int) -> float:
    """How many of `count` segments are begun in the mean before one is lost."""
    if lost <= 0:
        return float(count)
    return -expm1(count * log1p(-lost)) / lost if lost < 1 else float(min(1, count))


def _segment(levels: Levels, length_s: float) -> tuple[_Linear, float] | None:
    """A segment's V(i) without what follows it, and the share of V(i+1) in it; None where it never
    ends."""
    mtbf, share = levels.mtbf_s, levels.fast_share
    interrupted = -expm1(-length_s / mtbf)
    again = -expm1(-levels.fast_restart_s / mtbf)
    stays = 1 - again * share
    recovered = _Linear(again * mtbf / stays, again * (1 - share) / stays)
    own = 1 - interrupted * share * (1 - again) / stays
    if own <= 0:
        return None
    time_s = interrupted * mtbf + interrupted * share * recovered.own
    lost = interrupted * (share * recovered.slope + 1 - share)
    return _Linear(time_s / own, lost / own), (1 - interrupted) / own


def useful_share(levels: Levels, work_s: float, segments: int) -> float:
    """The share of time that is work which need not be done again."""
    return segments * work_s / cycle_s(levels, work_s, segments)


def best_levels(levels: Levels, least_work_s: float) -> tuple[float, int]:
    """The work between checkpoints, at least `least_work_s`, and the number of segments in a cycle
    that have the largest useful share.

    For a number of segments the share is taken to have one maximum in the work, found by golden
    section, and likewise that maximum over the number, found by doubling and then halving steps.
    """

    def at(segments: int) -> tuple[float, float]:
        def share(work_s: float) -> float:
            return useful_share(levels, work_s, segments)

        work_s = golden_maximum(share, least_work_s, max(levels.mtbf_s, least_work_s))
        return share(work_s), work_s

    known = {1: at(1)}

    def share_of(segments: int) -> float:
        if segments not in known:
            known[segments] = at(segments)
        return known[segments][0]

    best = 1
    while best < MOST_SEGMENTS and share_of(2 * best) > share_of(best):
        best *= 2
    step = best
    while step := step // 2:
        best = max((best - step, best, best + step), key=share_of)
    return known[best][1], best


def golden_maximum(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one maximum between two points has it (Kiefer 1953)."""
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(GOLDEN_STEPS):
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = function(right)
    return low if function(low) > function((low + high) / 2) else (low + high) / 2
