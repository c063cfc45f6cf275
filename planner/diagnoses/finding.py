"""What a diagnosis says about one cause: evidence, commands that check it, and remedies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.diagnoses.names import Cause, Remedy, Speaks, State, Unit

ITERATION = "iteration_ns"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A number, the rule that it is held against, and where the rule is from.

    `threshold` is the number in the rule, None where it has none.
    """

    what: str
    value: float | str
    unit: Unit
    speaks: Speaks
    rule: str
    source: str
    threshold: float | None = None
    stage: int | None = None
    device: int | None = None

    def to_document(self) -> dict[str, Any]:
        """As the API answers with it."""
        return {
            "what": self.what,
            "value": self.value,
            "unit": self.unit.value,
            "threshold": self.threshold,
            "speaks": self.speaks.value,
            "rule": self.rule,
            "source": self.source,
            "stage": self.stage,
            "device": self.device,
        }


@dataclass(frozen=True, slots=True)
class Check:
    """A command that checks a cause, and what to look for in what it prints."""

    command: str
    look_for: str

    def to_document(self) -> dict[str, str]:
        """As the API answers with it."""
        return {"command": self.command, "look_for": self.look_for}


@dataclass(frozen=True, slots=True)
class Effect:
    """What a number becomes; `before` is None where there is nothing to compare with. `basis`
    says how it was computed."""

    quantity: str
    unit: Unit
    before: float | None
    after: float
    basis: str

    @property
    def change(self) -> float | None:
        """As a share of what it was: -0.1 is a tenth less."""
        return self.after / self.before - 1 if self.before else None

    def to_document(self) -> dict[str, Any]:
        """As the API answers with it."""
        return {
            "quantity": self.quantity,
            "unit": self.unit.value,
            "before": self.before,
            "after": self.after,
            "change": self.change,
            "basis": self.basis,
        }


def iteration_effect(before_ns: int | None, after_ns: int, basis: str) -> Effect:
    """What becomes of the iteration."""
    return Effect(ITERATION, Unit.NS, before_ns, after_ns, basis)


@dataclass(frozen=True, slots=True)
class Advice:
    """A remedy with what it would bring and cost, or why that cannot be told (`unknown`).

    `request_changes` are values to put into the request, by path; `figures` further numbers, a
    row each.
    """

    remedy: Remedy
    detail: str
    effect: Effect | None = None
    unknown: str | None = None
    cost: Effect | None = None
    request_changes: Mapping[str, Any] | None = None
    figures: Sequence[Mapping[str, Any]] = ()

    def to_document(self) -> dict[str, Any]:
        """As the API answers with it."""
        return {
            "remedy": self.remedy.value,
            "detail": self.detail,
            "predicted_effect": self.effect and self.effect.to_document(),
            "no_prediction": None if self.effect else self.unknown,
            "predicted_cost": self.cost and self.cost.to_document(),
            "request_changes": self.request_changes and dict(self.request_changes),
            "figures": [dict(row) for row in self.figures],
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """What the numbers say about a cause.

    `weight` orders causes of the same state: the share of the iteration, of throughput or of memory
    that is at stake, None where the numbers do not say. `needs` are the fields of the request that
    would decide.
    """

    cause: Cause
    state: State
    summary: str
    evidence: Sequence[Evidence] = ()
    checks: Sequence[Check] = ()
    advice: Sequence[Advice] = ()
    weight: float | None = None
    needs: Sequence[str] = ()

    def to_document(self) -> dict[str, Any]:
        """As the API answers with it, without the symptoms that it may explain."""
        return {
            "cause": self.cause.value,
            "state": self.state.value,
            "weight": self.weight,
            "summary": self.summary,
            "evidence": [evidence.to_document() for evidence in self.evidence],
            "checks": [check.to_document() for check in self.checks],
            "remedies": [advice.to_document() for advice in self.advice],
            "needs": list(self.needs),
        }


def saving(advice: Sequence[Advice], otherwise: float | None = None) -> float | None:
    """The largest share of the iteration that a remedy saves; `otherwise` if none tells."""
    changes = [
        change
        for own in advice
        if own.effect is not None
        and own.effect.quantity == ITERATION
        and (change := own.effect.change) is not None
    ]
    return max(0.0, -min(changes)) if changes else otherwise


def state_of(evidence: Sequence[Evidence]) -> State:
    """`supported` if anything speaks for it, `ruled_out` if something speaks, and all against."""
    voices = {piece.speaks for piece in evidence}
    if Speaks.FOR in voices:
        return State.SUPPORTED
    if Speaks.AGAINST in voices and Speaks.NEITHER not in voices:
        return State.RULED_OUT
    return State.POSSIBLE


def speaks(value: float, supports_from: float, against_below: float | None = None) -> Speaks:
    """For from one threshold on, against below the other (the same if only one is given)."""
    if value >= supports_from:
        return Speaks.FOR
    if value < (supports_from if against_below is None else against_below):
        return Speaks.AGAINST
    return Speaks.NEITHER
