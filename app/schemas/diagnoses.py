"""A diagnosis: symptoms, and their causes ranked by what the numbers support."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from planner.diagnoses.names import Cause, FoundIn, Remedy, Speaks, State, Symptom, Unit


class _View(BaseModel):
    model_config = ConfigDict(extra="forbid")


class EvidenceView(_View):
    """A number, the rule that it is held against, and where the rule is from."""

    what: str
    value: float | str
    unit: Unit
    threshold: float | None
    speaks: Speaks = Field(description="For the cause or the symptom, against it, or neither.")
    rule: str
    source: str
    stage: int | None
    device: int | None


class CheckView(_View):
    """A command that checks a cause."""

    command: str
    look_for: str = Field(description="In what it prints.")


class EffectView(_View):
    """What a number becomes."""

    quantity: str
    unit: Unit
    before: float | None
    after: float
    change: float | None = Field(description="As a share of what it was; -0.1 is a tenth less.")
    basis: str = Field(description="How both were computed.")


class RemedyView(_View):
    """What can be done."""

    remedy: Remedy
    detail: str
    predicted_effect: EffectView | None
    no_prediction: str | None = Field(description="Why there is no `predicted_effect`.")
    predicted_cost: EffectView | None
    request_changes: dict[str, Any] | None = Field(
        description="Values to put into the request, by path."
    )
    figures: list[dict[str, Any]] = Field(description="Further numbers, a row each.")


class CauseView(_View):
    """A cause, and what the numbers say about it."""

    cause: Cause
    state: State
    symptoms: list[Symptom] = Field(description="Those that it may explain.")
    weight: float | None = Field(
        description="Share of the iteration, of throughput or of memory that is at stake; orders "
        "causes of the same state."
    )
    summary: str
    evidence: list[EvidenceView]
    checks: list[CheckView]
    remedies: list[RemedyView]
    needs: list[str] = Field(description="Fields of the request that would decide.")


class SymptomView(_View):
    """A symptom, and the numbers that show it."""

    symptom: Symptom
    found_in: FoundIn
    evidence: list[EvidenceView]
    causes: list[Cause] = Field(description="All that were looked at, the more usual first.")


class NoteView(_View):
    """An assumption."""

    what: str
    value: str
    basis: str


class DiagnosisView(_View):
    """Supported causes first, then possible ones, then those that the numbers rule out."""

    symptoms: list[SymptomView]
    causes: list[CauseView]
    assumptions: list[NoteView]
    warnings: list[str]
