"""Whether the database has the schema that this version works with."""

from __future__ import annotations

import logging

from sqlalchemy.exc import SQLAlchemyError

from app.database import Database
from app.models import SCHEMA_REVISION
from app.repositories.upkeep import UpkeepRepository
from app.schemas.health import SchemaState

logger = logging.getLogger(__name__)


def schema_state(database: Database) -> SchemaState:
    """`newer` while versions are exchanged one after another: migrations leave what the version
    before them needs. `unknown` without the database."""
    try:
        with database.reading() as session:
            revision = UpkeepRepository(session).revision()
    except SQLAlchemyError as error:
        logger.error("the database is unavailable: %s", error)
        return "unknown"
    if revision == SCHEMA_REVISION:
        return "ok"
    if revision is not None and revision > SCHEMA_REVISION:
        return "newer"
    logger.error(
        "the database's schema is %s and has to be %s: run `loadmaster db migrate`",
        revision or "missing",
        SCHEMA_REVISION,
    )
    return "outdated"
