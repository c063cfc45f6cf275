"""What every estimate answers beside its figures."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class EstimateView(BaseModel):
    """An estimate."""

    model_config = ConfigDict(extra="allow")

    assumptions: list[Any]
    warnings: list[Any]
