"""Whether the service can do its work."""

from __future__ import annotations

import logging
from typing import Literal

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from app.broker import is_reachable
from app.database import Database
from app.models import Solve
from app.schemas.health import Readiness
from app.settings import Settings

logger = logging.getLogger(__name__)


def readiness(database: Database, settings: Settings) -> Readiness:
    """`ok`; `degraded` without the broker (requests are taken and wait); `down` without the
    database or its tables."""
    has_database = _has_tables(database)
    has_broker = is_reachable(settings)
    status: Literal["ok", "degraded", "down"] = "ok" if has_broker else "degraded"
    return Readiness(
        status=status if has_database else "down",
        database="ok" if has_database else "unavailable",
        broker="ok" if has_broker else "unavailable",
    )


def _has_tables(database: Database) -> bool:
    try:
        with database.reading() as session:
            session.execute(select(Solve.id).limit(1)).all()
    except SQLAlchemyError as error:
        logger.error("the database is unavailable: %s", error)
        return False
    return True
