"""Estimates: from a body to an answer, without a job, and without the database unless the cluster
names a calibration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.callers import Caller
from app.services.calibrations.use import CalibrationsInUse
from app.services.limits import EstimateLimits
from planner.estimates.registry import Estimate


class Estimates:
    """The planner's estimates by name, within the limits of this service."""

    def __init__(
        self,
        estimates: Mapping[str, Estimate],
        limits: EstimateLimits,
        calibrations: CalibrationsInUse,
    ) -> None:
        self._estimates = estimates
        self._limits = limits
        self._calibrations = calibrations

    def answer(self, caller: Caller, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The estimate of this name. Raises `InvalidRequest` and `SpecError`."""
        body = self._calibrations.applied(caller.tenant, body)
        self._limits.check_body(body)
        return self._estimates[name](body)
