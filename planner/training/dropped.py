"""Examples of configurations that are not among the plans, each with its reason and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from planner.cost.degrees import Degrees
from planner.errors import SpecError
from planner.sizes import gib
from planner.training.evaluate import Evaluator, Plan, Shortage
from planner.training.search import ACTIVATIONS, RULES, SLOWER, STATES, Dropped
from planner.training.space import points, savers
from planner.training.spec import TrainingSpec
from planner.training.trainings import as_asked, training_of, with_savers
from planner.training.words import configuration, percent, sentence, shortage

ALONE = "data_parallelism"
"""As if a rule: why data parallelism alone is not among the plans."""


def dropped_documents(
    spec: TrainingSpec,
    evaluator: Evaluator,
    dropped: Sequence[Dropped],
    listed: Sequence[Plan],
) -> list[dict[str, Any]]:
    """The examples in words, and why data parallelism alone is not among the plans listed."""
    documents = [_document(spec, evaluator, each, listed) for each in dropped]
    alone = _data_parallelism(spec, evaluator, listed)
    return documents if alone is None else [*documents, alone]


def _document(
    spec: TrainingSpec, evaluator: Evaluator, dropped: Dropped, listed: Sequence[Plan]
) -> dict[str, Any]:
    document = {
        "configuration": configuration(dropped.training),
        "rule": dropped.rule,
        "why": RULES[dropped.rule],
        "bound_ns": dropped.bound_ns,
    }
    if dropped.rule in (STATES, ACTIVATIONS):
        outcome = evaluator.evaluate(as_asked(spec, dropped.training))
        if isinstance(outcome, Shortage):
            document |= _shortage(outcome)
    elif dropped.rule == SLOWER and listed:
        document["detail"] = f"Predicted at least {_longer(dropped.bound_ns, listed)}."
    return document


def _shortage(outcome: Shortage) -> dict[str, Any]:
    needed = outcome.peak_bytes
    return {
        "bytes": needed,
        "limit_bytes": outcome.fullest.limit_bytes,
        "detail": f"{sentence(shortage(outcome.fullest, needed))}.{_offload(outcome)}",
    }


def _longer(step_ns: int, listed: Sequence[Plan]) -> str:
    over_ns = step_ns - listed[0].total_ns
    return f"{over_ns / 1e6:.1f} ms ({percent(over_ns / listed[0].total_ns)}) slower than the first"


def _data_parallelism(
    spec: TrainingSpec, evaluator: Evaluator, listed: Sequence[Plan]
) -> dict[str, Any] | None:
    """What the simplest way to train would come to, with the mildest savers and with others."""
    point = next((p for p in points(spec, Counter()) if _is_alone(p.degrees)), None)
    if point is None or any(_is_alone(plan.training.degrees) for plan in listed):
        return None
    try:
        training = training_of(spec, point, None)
    except SpecError:
        return None
    found = [
        evaluator.evaluate(with_savers(training, spec, 1, saver))
        for saver in savers(spec, point.degrees)
    ]
    mildest = found[0]
    document: dict[str, Any] = {
        "configuration": configuration(
            with_savers(training, spec, 1, savers(spec, point.degrees)[0])
        ),
        "rule": ALONE,
        "why": "data parallelism alone, the simplest way to train",
    }
    fitting = [outcome for outcome in found if isinstance(outcome, Plan)]
    fastest = min(fitting, key=lambda plan: plan.key, default=None)
    instead = (
        "It does not fit with any ZeRO stage and recomputation that is allowed either."
        if fastest is None
        else f"With {configuration(fastest.training)} it fits; predicted step "
        f"{fastest.total_ns / 1e6:.1f} ms, {_longer(fastest.total_ns, listed)}."
        if listed
        else ""
    )
    if isinstance(mildest, Shortage):
        shown = _shortage(mildest)
        return document | shown | {"detail": f"{shown['detail']} {instead}".strip()}
    return document | {"detail": instead}


def _is_alone(degrees: Degrees) -> bool:
    return degrees.data == degrees.gpus > 1 and degrees.expert == 1


def _offload(outcome: Shortage) -> str:
    short = outcome.offload
    if short is None:
        return ""
    if short.where == "host":
        return (
            f" Its offloads would take {gib(short.needed_bytes)} of host memory per GPU on node "
            f"{short.number}, which has {gib(short.limit_bytes)}."
        )
    return " That is with all offloads that 1F1B leaves time for."
