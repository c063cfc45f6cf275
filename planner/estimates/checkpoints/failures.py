"""How often a training is interrupted."""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.build import CostModel
from planner.estimates.checkpoints.request import CheckpointsRequest
from planner.estimates.checkpoints.sizes import nodes_in_use

DAY_S, DAY_HOURS = 86_400, 24
DEFAULT_GPU_MTBF_HOURS = 50_700.0
"""419 unexpected interruptions in 54 days on 16,384 H100: 16,384 x 54 x 24 / 419 = 50,677 hours."""


@dataclass(frozen=True, slots=True)
class Failures:
    """Interruptions of the whole training per day, and what that rests on."""

    per_day: float
    basis: str

    @property
    def mtbf_s(self) -> float:
        """Mean time between two of them."""
        return DAY_S / self.per_day


def failures_of(costs: CostModel, request: CheckpointsRequest) -> Failures:
    """Rates of independent parts add up: n parts of mean time m fail every m / n."""
    gpus, nodes = costs.training.degrees.gpus, nodes_in_use(costs)
    if request.failures_per_day is not None:
        return Failures(request.failures_per_day, "As observed, given with the request.")
    if request.node_mtbf_hours is not None:
        per_day = nodes * DAY_HOURS / request.node_mtbf_hours
        return Failures(
            per_day,
            f"{nodes} node{'s' * (nodes > 1)}, each every {request.node_mtbf_hours:,g} hours.",
        )
    hours = request.gpu_mtbf_hours or DEFAULT_GPU_MTBF_HOURS
    basis = f"{gpus} GPU{'s' * (gpus > 1)} in use, each every {hours:,g} hours"
    if request.gpu_mtbf_hours is None:
        basis += (
            ": Meta counted 419 unexpected interruptions in 54 days on 16,384 H100 (Grattafiori et "
            "al. 2024, The Llama 3 Herd of Models, section 3.3.4). Give your own"
        )
    return Failures(gpus * DAY_HOURS / hours, f"{basis}.")
