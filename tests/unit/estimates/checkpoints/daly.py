"""Daly's complete model (Daly 2006), which plans are held against."""

from __future__ import annotations

from math import exp, expm1, inf

from planner.estimates.checkpoints.intervals import LARGEST_EXPONENT


def expected_s(work_s: float, cost_s: float, mtbf_s: float, restart_s: float) -> float:
    """E(T): the mean time for `work_s` of work and a checkpoint; infinite where failures come so
    often that nothing gets done."""
    exponents = (restart_s / mtbf_s, (work_s + cost_s) / mtbf_s)
    if sum(exponents) > LARGEST_EXPONENT:
        return inf
    return mtbf_s * exp(exponents[0]) * expm1(exponents[1])
