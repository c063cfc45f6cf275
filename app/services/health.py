"""Whether the service can do its work."""

from __future__ import annotations

from typing import Literal

from app.broker import is_reachable
from app.database import Database
from app.schemas.health import Readiness
from app.services.schema_state import schema_state
from app.settings import Settings


def readiness(database: Database, settings: Settings) -> Readiness:
    """`ok`; `degraded` without the broker (requests are taken and wait); `down` without the
    database or the tables that this version works with."""
    schema = schema_state(database)
    has_broker = is_reachable(settings)
    status: Literal["ok", "degraded", "down"] = "ok" if has_broker else "degraded"
    return Readiness(
        status=status if schema in ("ok", "newer") else "down",
        database="unavailable" if schema == "unknown" else "ok",
        schema=schema,
        broker="ok" if has_broker else "unavailable",
    )
