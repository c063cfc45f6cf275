"""What the health addresses answer."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


class Liveness(BaseModel):
    """The process runs."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """The service and what it stands on."""

    status: Literal["ok", "degraded", "down"]
    database: Literal["ok", "unavailable"]
    broker: Literal["ok", "unavailable"]
