"""The answer of a sharding solve as JSON: instance, plan, baselines, certificate, provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.sharding.certificate import certificate_of, gap
from planner.sharding.pareto import FrontPoint
from planner.sharding.plan_document import plan_document, swept
from planner.sharding.provenance import provenance_of
from planner.sharding.spec import ShardingSpec
from planner.sharding.stage_answer import StageAnswer
from planner.sharding.verify import VERIFIER


def succeeded_answer(
    spec: ShardingSpec, stages: Sequence[StageAnswer], seconds: float
) -> dict[str, Any]:
    """The answer with verified plans; with several stages each has a document of its own."""
    documents = [stage_document(spec, answer) for answer in stages]
    provenance = provenance_of(spec, stages, seconds)
    if len(stages) == 1:
        document = {**documents[0], "provenance": provenance}
    else:
        certificate = _certificate_of_all([document["certificate"] for document in documents])
        document = {"stages": documents, "certificate": certificate, "provenance": provenance}
    return {
        "state": "succeeded",
        "objective": document["certificate"]["objective"],
        "lower_bound": document["certificate"]["lower_bound"],
        "proven_optimal": document["certificate"]["proven_optimal"],
        "document": document,
    }


def _certificate_of_all(certificates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One certificate of all stages' plans together."""
    objective = sum(own["objective"] for own in certificates)
    bounds = [own["lower_bound"] for own in certificates]
    bound = None if None in bounds else sum(bounds)
    return {
        "verified": all(own["verified"] for own in certificates),
        "verifier": VERIFIER,
        "proven_optimal": all(own["proven_optimal"] for own in certificates),
        "objective": objective,
        "lower_bound": bound,
        "gap": gap(objective, bound),
        "fits": all(own["fits"] for own in certificates),
        "scope": [
            "among plans of these stages: the layers are divided before the stages are planned",
            "what stages send each other is the same for all plans, and not counted",
        ],
    }


def infeasible_answer(spec: ShardingSpec, answer: StageAnswer, seconds: float) -> dict[str, Any]:
    """The answer where nothing fits: who is short of how much, and the ways out."""
    assert answer.infeasibility is not None
    return {
        "state": "infeasible",
        "document": {
            "instance": answer.found.instance.to_document(),
            "infeasibility": {
                **({} if spec.stages == 1 else _of_stage(answer)),
                **answer.infeasibility,
            },
            "provenance": provenance_of(spec, [answer], seconds),
        },
    }


def stage_document(spec: ShardingSpec, answer: StageAnswer) -> dict[str, Any]:
    """Everything about one stage's plan, but for how it came about."""
    document: dict[str, Any] = {
        "instance": answer.found.instance.to_document(),
        "plan": plan_document(spec, answer),
        "baselines": answer.baselines,
        "certificate": certificate_of(answer),
    }
    if spec.stages > 1:
        document = {
            "layers": answer.stage.layers,
            "devices": answer.formulation.settings.devices.count,
            "micro_batches_in_flight": answer.stage.micro_batches_in_flight,
            **document,
        }
    if answer.sweep:
        document["sweep"] = [swept(spec, answer, alpha, own) for alpha, own in answer.sweep]
    if answer.pareto is not None:
        document["pareto"] = [_point(point, answer.limit_bytes) for point in answer.pareto]
        document["pareto_complete"] = answer.pareto_is_complete
    if answer.explanations:
        document["explanations"] = answer.explanations
    return document


def _of_stage(answer: StageAnswer) -> dict[str, Any]:
    return {
        "stage": answer.stage.number,
        "layers": answer.stage.layers,
        "devices": answer.formulation.settings.devices.count,
    }


def _point(point: FrontPoint, limit_bytes: int | None) -> dict[str, Any]:
    """A point of the front; a plan may keep what it does and still not fit for a moment."""
    fits = None
    if limit_bytes is None:
        fits = True
    elif point.peak_bytes is not None:
        fits = point.peak_bytes <= limit_bytes
    return {
        "redundant_bytes": point.redundant_bytes,
        "communication_bytes": point.communication_bytes,
        "memory_bytes": point.memory_bytes,
        "predicted_peak_bytes": point.peak_bytes,
        "fits": fits,
        "choice": list(point.choice),
        "proven": point.is_proven,
    }
