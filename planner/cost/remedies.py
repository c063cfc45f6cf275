"""Ways out of a lack of memory: each is resolved and judged before it is reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.cost.build import Candidate
from planner.cost.changes import Change, Ladder, combined_change, single_changes
from planner.cost.spec import Spec, checked_candidates, read_cost_model
from planner.errors import SpecError
from planner.pipeline.problem import PipelineProblem

Evaluate = Callable[[tuple[Candidate, ...]], bool]


@dataclass(frozen=True, slots=True)
class Remedy:
    """One kind of change and whether it helps.

    `training` is the training document to post instead, None where no step of this kind fits.
    """

    remedy: str
    detail: str
    training: dict[str, Any] | None

    @property
    def fits(self) -> bool:
        """Whether the changed training fits."""
        return self.training is not None

    def to_document(self) -> dict[str, Any]:
        """The remedy as JSON."""
        document: dict[str, Any] = {
            "remedy": self.remedy,
            "fits": self.fits,
            "detail": self.detail,
            "basis": "computed: the changed training was resolved and judged",
        }
        if self.training is not None:
            document["training"] = self.training
            document["request_changes"] = {"training": self.training}
        return document


def try_remedies(
    model: Spec, cluster: Spec, training: Mapping[str, Any], evaluate: Evaluate
) -> tuple[Remedy, ...]:
    """Changes to `training` on the same cluster, judged by `evaluate(candidates)`.

    Each kind (offload, recomputation, smaller micro-batch with the same global batch, more
    stages, tensor degree, ZeRO stage) is tried on its own, mildest step first, up to the first
    that fits; where none does, all at once. A measured profile is kept as it is.
    """
    costs = read_cost_model(model, cluster, training)

    def attempt(ladder: Ladder) -> Remedy:
        for change in ladder.steps:
            changed = _changed(training, change)
            if _fits(model, cluster, changed, evaluate):
                return Remedy(ladder.kind, f"With {change.words} it fits.", changed)
        tried = ", ".join(change.words for change in ladder.steps)
        detail = f"Does not fit with: {tried}." if tried else "Nothing is left to change."
        return Remedy(ladder.kind, detail, None)

    found = [
        attempt(ladder) for ladder in single_changes(costs.model, costs.cluster, costs.training)
    ]
    if not any(remedy.fits for remedy in found):
        found.append(attempt(combined_change(costs.training)))
    return tuple(found)


def spec_remedies(
    source: Mapping[str, Any], fits: Callable[[Sequence[PipelineProblem]], bool]
) -> list[dict[str, Any]]:
    """`try_remedies` as JSON for a `source` of model, cluster and training.

    `fits` is given the problems of all placements of a changed training.
    """

    def evaluate(candidates: tuple[Candidate, ...]) -> bool:
        return fits([candidate.problem for candidate in candidates])

    found = try_remedies(source["model"], source["cluster"], source["training"], evaluate)
    return [remedy.to_document() for remedy in found]


def _changed(training: Mapping[str, Any], change: Change) -> dict[str, Any]:
    changed = {**training, **change.fields}
    if "micro_batches" in change.fields:
        changed.pop("global_batch_size", None)
    return changed


def _fits(model: Spec, cluster: Spec, training: Mapping[str, Any], evaluate: Evaluate) -> bool:
    try:
        candidates = checked_candidates(read_cost_model(model, cluster, training))
    except SpecError:
        # The change does not suit this model or cluster.
        return False
    return bool(candidates) and evaluate(candidates)
