"""The answer of a search as JSON: plans, the best one's schedule, what was searched, and proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from planner.training.deviation import deviation_reasons
from planner.training.dropped import dropped_documents
from planner.training.evaluate import Evaluator
from planner.training.finalists import Solved
from planner.training.notes import search_notes, warnings_of
from planner.training.plan_document import plan_document, point_document
from planner.training.reasons import reasons
from planner.training.search import RULES, Found
from planner.training.space import LEFT_OUT
from planner.training.spec import TrainingSpec
from planner.training.verify import VERIFIER, Verified
from planner.version import __version__


@dataclass
class Outcome:
    """Everything that an answer is made of; `best` is the verified plan of the shortest step known,
    `schedule` the finalist it was solved as."""

    spec: TrainingSpec
    evaluator: Evaluator
    found: Found
    verified: Sequence[Verified]
    best: Verified
    seconds: float = 0.0
    solved: Sequence[Solved] = ()
    schedule: Mapping[str, Any] | None = None
    sharding: Mapping[str, Any] | None = None
    experts: Mapping[str, Any] | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    refused: Sequence[Verified] = ()

    @property
    def objective_ns(self) -> int:
        """The step of the best plan: its schedule's makespan, or 1F1B's where none was solved."""
        if self.schedule is not None:
            value: int = self.schedule["certificate"]["value_ns"]
            return value
        return self.best.best_known_ns

    @property
    def ranking(self) -> list[Verified]:
        """The plans by predicted step, each with the bounds that its solver proved."""
        known = [self._as_proven(own) for own in self.verified]
        return sorted(known, key=lambda own: own.plan.key)

    def _as_proven(self, own: Verified) -> Verified:
        solved = self.solved_of(own)
        if solved is None or solved.lower_bound_ns is None:
            return own
        bound_ns, step_ns = solved.lower_bound_ns, own.step_time_ns
        return replace(
            own,
            plan=own.plan.proven(bound_ns),
            step_time_ns=None if step_ns is None else max(step_ns, bound_ns),
        )

    def solved_of(self, own: Verified) -> Solved | None:
        """What became of a plan as a finalist, None if it is none."""
        return next((s for s in self.solved if s.verified.document is own.document), None)

    @property
    def lower_bound_ns(self) -> int | None:
        """What no schedule of any configuration is shorter than."""
        least = self.found.least_ns
        return None if least is None or not self.found.complete else min(least, self.objective_ns)

    @property
    def is_optimal(self) -> bool:
        """Whether the best plan meets the bound."""
        return self.lower_bound_ns is not None and self.objective_ns <= self.lower_bound_ns


def left_out(spec: TrainingSpec, outcome: Outcome) -> dict[str, str]:
    """Why the best plan lacks a part."""
    degrees = outcome.best.plan.training.degrees
    missing: dict[str, str] = {}
    solver = "No solver was asked for: search.finalists is 0."
    if outcome.schedule is None:
        missing["schedule"] = "No finalist's schedule is solved yet." if spec.finalists else solver
    if degrees.tensor == 1:
        missing["sharding"] = "tensor_parallel is 1: every GPU has whole layers."
    elif outcome.sharding is None:
        missing["sharding"] = "Not solved yet." if spec.finalists else solver
    if outcome.experts is None:
        if not spec.model.has_router:
            missing["experts"] = "The model has no experts."
        elif degrees.expert == 1:
            missing["experts"] = "expert_parallel is 1: every rank has all experts."
        else:
            missing["experts"] = "training.expert_load is given instead of a routing frequency."
    return missing


def succeeded_answer(outcome: Outcome) -> dict[str, Any]:
    """The answer with its plans."""
    return {
        "state": "succeeded",
        "objective": outcome.objective_ns,
        "lower_bound": outcome.lower_bound_ns,
        "proven_optimal": outcome.is_optimal,
        "document": result_document(outcome),
    }


def result_document(outcome: Outcome) -> dict[str, Any]:
    """What clients get."""
    spec, found = outcome.spec, outcome.found
    ranking = outcome.ranking
    best = next(own for own in ranking if own.document is outcome.best.document)
    listed = [own.plan for own in ranking]
    plans = [
        {
            "rank": place + 1,
            **plan_document(spec, own.plan, own.document),
            "verified": _verified_document(own),
            "schedule": _solved_document(outcome.solved_of(own)),
            "reasons": [
                *reasons(spec, outcome.evaluator, own.plan, listed[0]),
                *deviation_reasons(own, outcome.solved_of(own)),
            ],
        }
        for place, own in enumerate(ranking)
    ]
    document: dict[str, Any] = {
        "plans": plans,
        "best": {
            "rank": ranking.index(best) + 1,
            "step_time_ns": outcome.objective_ns,
            "training": outcome.best.document,
            "schedule": outcome.schedule,
            "sharding": outcome.sharding,
            "experts": outcome.experts,
            "left_out": outcome.left_out,
        },
        "searched": _searched(spec, found),
        "dropped": dropped_documents(spec, outcome.evaluator, found.dropped, listed)
        + [_refused(own) for own in outcome.refused],
        "certificate": _certificate(outcome),
        "assumptions": [*search_notes(spec)],
        "warnings": [*warnings_of(spec, best.plan, outcome.objective_ns, found.complete)],
        "provenance": _provenance(spec, outcome.seconds),
    }
    if spec.pareto:
        known = {plan.training: plan for plan in listed}
        document["pareto"] = [
            point_document(spec, known.get(plan.training, plan)) for plan in found.front
        ]
    return document


def _verified_document(own: Verified) -> dict[str, Any]:
    carried = own.carried_out
    return {
        "verifier": VERIFIER,
        "schedule": carried and carried.name,
        "micro_batches": own.micro_batches,
        "makespan_ns": carried and carried.makespan_ns,
        "step_time_ns": own.step_time_ns,
        "deviation": own.deviation,
    }


def _solved_document(solved: Solved | None) -> dict[str, Any] | None:
    """A finalist's makespan, bound and gap, or why it has none; None for others."""
    if solved is None:
        return None
    if solved.answer is None:
        return {"makespan_ns": None, "why_not": solved.why_not}
    certificate = solved.answer["document"]["certificate"]
    return {
        "makespan_ns": certificate["value_ns"],
        "lower_bound_ns": certificate["lower_bound_ns"],
        "gap": certificate["gap"],
        "found_by": solved.answer["document"]["provenance"]["found_by"],
    }


def _searched(spec: TrainingSpec, found: Found) -> dict[str, Any]:
    outcomes = {rule: count for rule, count in found.outcomes.items() if count}
    return {
        "devices": list(spec.devices),
        "enumerated": found.enumerated,
        "worked_out": found.worked_out,
        "fits": outcomes.pop("fits", 0),
        "dropped": outcomes,
        "left_out": dict(found.left_out),
        "complete": found.complete,
        "rules": {rule: RULES[rule] for rule in outcomes}
        | {rule: LEFT_OUT[rule] for rule in found.left_out},
    }


def _refused(own: Verified) -> dict[str, Any]:
    return {
        "rule": UNVERIFIED,
        "why": "it fits by the closed form, but did not pass verification",
        "training": own.document,
        "detail": "; ".join(own.violations),
    }


def _certificate(outcome: Outcome) -> dict[str, Any]:
    value, bound = outcome.objective_ns, outcome.lower_bound_ns
    schedule = outcome.schedule
    return {
        "verified": True,
        "verifier": VERIFIER,
        "proven_optimal": outcome.is_optimal,
        "objective": "step_time",
        "value_ns": value,
        "lower_bound_ns": bound,
        "bound_name": None if bound is None else BOUND_NAME,
        "gap": None if bound is None else round((value - bound) / value, 6),
        "ranking_complete": outcome.found.complete,
        "schedule": schedule and schedule["certificate"],
        "scope": [
            "the ranking is complete over the configurations enumerated, by predicted step under "
            "the cost model; measured times may differ",
            "each plan's documents were read again, its degrees, layers, step time and memory "
            "worked out anew, and its schedule carried out and verified on the pipeline problem",
            "the lower bound holds for every schedule of every configuration whose states fit",
        ],
    }


BOUND_NAME = "busiest rank's work"
UNVERIFIED = "verification"
"""As if a rule: it fits by the closed form alone."""


def infeasible_answer(
    spec: TrainingSpec,
    evaluator: Evaluator,
    found: Found,
    infeasibility: Mapping[str, Any],
    seconds: float,
) -> dict[str, Any]:
    """The answer where no configuration fits."""
    return {
        "state": "infeasible",
        "document": {
            "infeasibility": dict(infeasibility),
            "searched": _searched(spec, found),
            "dropped": dropped_documents(spec, evaluator, found.dropped, ()),
            "assumptions": [*search_notes(spec)],
            "provenance": _provenance(spec, seconds),
        },
    }


def _provenance(spec: TrainingSpec, seconds: float) -> dict[str, Any]:
    return {
        "planner_version": __version__,
        "engine": spec.options.engine,
        "solve_seconds": round(seconds, 3),
        "options": spec.options.to_document(),
        "request": dict(spec.request),
    }
