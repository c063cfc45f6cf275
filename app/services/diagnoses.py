"""Diagnoses: from symptoms and numbers to causes, without a job and without the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.services.limits import EstimateLimits, PipelineLimits
from app.settings import Settings
from planner.diagnoses.diagnose import diagnose
from planner.diagnoses.request import read_request


class Diagnoses:
    """The planner's diagnoses, within the limits of this service."""

    def __init__(self, settings: Settings) -> None:
        self._plans = PipelineLimits(settings)
        self._clusters = EstimateLimits(settings)

    def answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The diagnosis of a body. Raises `LimitExceeded` and `SpecError`."""
        self._plans.check_body(body)
        self._clusters.check_body(body)
        return diagnose(read_request(body)).to_document()
