"""Locks of names, for rules about many rows: no lock of rows keeps others from adding one."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

LOCK_CLASS = 0x10AD
"""Of the advisory locks taken here, among all of this database on PostgreSQL."""


def lock_until_commit(session: Session, name: str) -> None:
    """Wait until no other transaction holds this name, and hold it until this one ends."""
    # On SQLite, a writing transaction excludes all others anyway.
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(LOCK_CLASS, func.hashtext(name))))
