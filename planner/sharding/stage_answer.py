"""What the solve of one stage found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.sharding.build import Formulation
from planner.sharding.instance import Plan
from planner.sharding.pareto import FrontPoint
from planner.sharding.planning import Found
from planner.sharding.proof import Proof
from planner.sharding.stages import StageGraph
from planner.sharding.times import StepTime


@dataclass(frozen=True)
class StageAnswer:
    """What a stage's solve found. Without a plan `infeasibility` says why, if that is proven;
    if only no plan's peak was found to fit, `ways_out` says the same of what would.

    `layers_apart` is the best plan whose layers may differ, without a memory limit, where layers
    are folded and it was found. Of a `sweep` those weights are None for which no time was left.
    """

    stage: StageGraph
    formulation: Formulation
    limit_bytes: int | None
    found: Found
    solve_seconds: float
    proof: Proof | None = None
    layers_apart: Plan | None = None
    sweep: tuple[tuple[float, Found | None], ...] = ()
    pareto: tuple[FrontPoint, ...] | None = None
    pareto_is_complete: bool = False
    step: StepTime | None = None
    baselines: list[dict[str, Any]] = field(default_factory=list)
    explanations: list[dict[str, Any]] = field(default_factory=list)
    infeasibility: Mapping[str, Any] | None = None
    ways_out: Mapping[str, Any] | None = None
