"""Whole units of time for the model, and what its bound says in nanoseconds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from planner.pipeline.bounds.lower_bounds import time_grid_ns
from planner.pipeline.problem import Objective, PipelineProblem

BOUND_TOLERANCE = 1e-6
"""The solver hands its whole-numbered bound on as a float; this much is taken off before it is
rounded up again."""


@dataclass(frozen=True)
class TimeScale:
    """`unit_ns` divides every duration and latency of the problem."""

    unit_ns: int
    objective: Objective

    @classmethod
    def coarsest(cls, problem: PipelineProblem) -> TimeScale:
        """Units of the greatest common divisor of all times."""
        grid = time_grid_ns(replace(problem, objective=Objective.MAKESPAN))
        return cls(grid, problem.objective)

    @property
    def is_exact(self) -> bool:
        """Whether the optimum in units is the optimum in nanoseconds."""
        return self.objective is Objective.MAKESPAN or self.unit_ns == 1

    def units(self, exact_ns: int) -> int:
        """A duration or latency in units."""
        return exact_ns // self.unit_ns

    def least_objective_units(self, lower_bound_ns: int) -> int:
        """The least objective in units that a bound in nanoseconds leaves."""
        return -(-lower_bound_ns // self.unit_ns)

    def bound_ns(self, units: float) -> int:
        """A bound on the objective in units as one in nanoseconds.

        A makespan is a whole number of units. A steady span of S ns or less in orders whose
        lengths are whole units can be had in ceil(S / unit) units: the orders and the span are
        difference constraints, which have a solution in whole units whenever they have any. So
        if fewer than k units are impossible, k - 1 units of nanoseconds are not enough.
        """
        whole = max(0, math.ceil(units - BOUND_TOLERANCE * max(1.0, abs(units))))
        if self.is_exact or whole == 0:
            return whole * self.unit_ns
        return (whole - 1) * self.unit_ns + 1
