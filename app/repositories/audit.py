"""The audit log: entries are added and read, never changed."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.models import AuditEntry


class AuditRepository:
    """Queries and writes of the table `audit_entries`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, entry: AuditEntry) -> None:
        """Add an entry; it stays with what it tells of, or goes if that is rolled back."""
        self._session.add(entry)

    def page(
        self, tenant: str | None, after: tuple[int, int] | None, limit: int
    ) -> list[AuditEntry]:
        """Entries of one tenant or of all, the newest first.

        `after` is an instant and how many entries of it were read already. Ids would do too, but
        they count the entries of all tenants, which no tenant should know.
        """
        statement = select(AuditEntry).order_by(AuditEntry.at.desc(), AuditEntry.id.desc())
        if tenant is not None:
            statement = statement.where(AuditEntry.tenant == tenant)
        if after is not None:
            at, read = after
            statement = statement.where(AuditEntry.at <= at).offset(read)
        return list(self._session.scalars(statement.limit(limit)))
