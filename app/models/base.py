"""What all tables have in common, and the words that their columns hold."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import MetaData
from sqlalchemy.orm import DeclarativeBase

SCHEMA_REVISION = "0007"
"""The migration that these tables come from. Numbers of revisions grow."""
DEFAULT_TENANT = "default"
DEFAULT_PRIORITY = 5
SHARED = ""
"""The scope of solves whose answers all tenants share that have not opted out."""
SHORT, LONG = "short", "long"
"""The queues, by expected cost: workers take `long` only where they are told to."""
PIPELINE, SHARDING, TRAINING = "pipeline", "sharding", "training"
"""The kinds of a solve: a pipeline schedule, whose objective is in ns; a sharding plan, whose
objective is in bytes; and a training plan, whose objective is the predicted step time in ns."""
LOWEST_PRIORITY, HIGHEST_PRIORITY = 0, 9


def listed(states: tuple[StrEnum, ...]) -> str:
    """As a list in SQL."""
    return ", ".join(f"'{state}'" for state in states)


class Base(DeclarativeBase):
    """Base of all tables; constraints have names, so that migrations can speak of them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
