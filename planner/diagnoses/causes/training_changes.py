"""Changes of a training that take less memory, each with its peak and its step time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.cost.build import CostModel
from planner.cost.step import step_of
from planner.cost.training import read_training
from planner.diagnoses.finding import Advice, Effect, iteration_effect
from planner.diagnoses.names import Remedy, Unit
from planner.diagnoses.request import Described
from planner.errors import SpecError
from planner.estimates.memory.remedies import what_would_fit
from planner.estimates.ranks import estimated_placement, rank_footprints, tightest

BASIS = "POST /v1/memory-estimates and /v1/step-time-estimates for both trainings"
NOTHING_FITS = "By the estimate nothing of this kind is enough; see the other remedies."


def training_advice(described: Described) -> list[Advice]:
    """Per kind of change the mildest that fits by the estimate of memory."""
    costs = described.costs
    before = tightest(rank_footprints(costs)).total_bytes
    found = what_would_fit(costs, described.training)
    advice = []
    for change in found["changes"]:
        if not change["fits"]:
            continue
        training = change["training"]
        advice.append(
            Advice(
                Remedy.CHANGE_TRAINING,
                change["detail"],
                Effect(
                    "peak_memory_bytes",
                    Unit.BYTES,
                    before,
                    change["steps"][-1]["peak_bytes"],
                    BASIS,
                ),
                cost=_step_time(costs, training),
                request_changes={
                    f"training.{name}": value
                    for name, value in training.items()
                    if described.training.get(name) != value
                },
            )
        )
    if not advice:
        advice.append(Advice(Remedy.CHANGE_TRAINING, NOTHING_FITS, unknown=NOTHING_FITS))
    return advice


def _step_time(costs: CostModel, changed: Mapping[str, Any]) -> Effect | None:
    try:
        other = CostModel.of(
            costs.model, costs.cluster, read_training(changed, costs.model, costs.cluster)
        )
    except SpecError:
        return None
    return iteration_effect(_step_ns(costs), _step_ns(other), BASIS)


def _step_ns(costs: CostModel) -> int:
    """The closed form of a step."""
    placement = estimated_placement(costs)
    return step_of(costs, placement.chunks, costs.layers_per_stage(placement)).time.total_ns
