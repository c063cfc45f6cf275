"""Estimates: from a body to an answer, without a job and without the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.services.limits import EstimateLimits
from planner.estimates.registry import Estimate


class Estimates:
    """The planner's estimates by name, within the limits of this service."""

    def __init__(self, estimates: Mapping[str, Estimate], limits: EstimateLimits) -> None:
        self._estimates = estimates
        self._limits = limits

    def answer(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The estimate of this name. Raises `LimitExceeded` and `SpecError`."""
        self._limits.check_body(body)
        return self._estimates[name](body)
