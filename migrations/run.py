"""Run the migrations from code, on whichever database the settings name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import Connection, text

from app.database import BEGIN_OPTION, make_engine
from app.settings import Settings

SCRIPTS = Path(__file__).parent
# Any number, as long as it is always the same one.
POSTGRES_LOCK = 7_404_161


class UnknownRevision(Exception):
    """There is no such revision, or the database has one that this version does not know."""


def upgrade(settings: Settings, revision: str = "head") -> None:
    """Bring the schema up to `revision`."""
    _run(settings, command.upgrade, revision)


def downgrade(settings: Settings, revision: str) -> None:
    """Bring the schema down to `revision` ("base" drops everything)."""
    _run(settings, command.downgrade, revision)


def config_for(connection: Connection) -> Config:
    """An Alembic configuration bound to an open connection."""
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _run(settings: Settings, step: Callable[[Config, str], None], revision: str) -> None:
    engine = make_engine(settings)
    try:
        # One transaction and one lock: of several processes that migrate at once, one works.
        with engine.execution_options(**{BEGIN_OPTION: "IMMEDIATE"}).begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text(f"SELECT pg_advisory_xact_lock({POSTGRES_LOCK})"))
            try:
                step(config_for(connection), revision)
            except CommandError as error:
                raise UnknownRevision(
                    f"{error}; a database that a newer version has migrated needs that version"
                ) from error
    finally:
        engine.dispose()
