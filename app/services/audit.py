"""The audit log: what people did with keys, limits and the jobs of others."""

from __future__ import annotations

from sqlalchemy.orm import Session

from app.callers import Caller
from app.cursors import decode_cursor, encode_cursor
from app.database import Database
from app.errors import InvalidRequest
from app.models import AuditEntry
from app.observability.context import request_id
from app.repositories.audit import AuditRepository
from app.schemas.audit import AuditEntryView, AuditPage
from app.schemas.times import known_instant

ACTOR_LENGTH, TARGET_LENGTH = 64, 200


def record(
    session: Session,
    caller: Caller,
    action: str,
    target: str | None = None,
    detail: str | None = None,
) -> None:
    """Write an entry in the transaction of what it tells of, so that both happen or neither.

    `action` is a noun and what happened to it ("key created"), `target` the id of what it was done
    to.
    """
    AuditRepository(session).add(
        AuditEntry(
            tenant=caller.tenant,
            actor=caller.actor[:ACTOR_LENGTH],
            action=action,
            target=None if target is None else target[:TARGET_LENGTH],
            detail=detail,
            request_id=request_id(),
        )
    )


class AuditLog:
    """Reading the log, each call one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, caller: Caller, cursor: str | None, limit: int) -> AuditPage:
        """One page of the caller's tenant, newest first."""
        after = None if cursor is None else _decode(cursor)
        with self._database.reading() as session:
            entries = AuditRepository(session).page(caller.tenant, after, limit + 1)
        shown = entries[:limit]
        more = len(entries) > limit
        return AuditPage(
            entries=[_view(entry) for entry in shown],
            next_cursor=_next_cursor(shown, after) if more else None,
        )

    def newest(self, tenant: str | None, limit: int) -> list[AuditEntry]:
        """The newest entries of a tenant, or of all, for whoever runs the service."""
        with self._database.reading() as session:
            return AuditRepository(session).page(tenant, None, limit)


def _view(entry: AuditEntry) -> AuditEntryView:
    return AuditEntryView(
        at=known_instant(entry.at),
        actor=entry.actor,
        action=entry.action,
        target=entry.target,
        detail=entry.detail,
        request_id=entry.request_id,
    )


def _next_cursor(shown: list[AuditEntry], after: tuple[int, int] | None) -> str:
    last = shown[-1].at
    read = sum(entry.at == last for entry in shown)
    if after is not None and after[0] == last:
        read += after[1]
    return encode_cursor(last, str(read))


def _decode(cursor: str) -> tuple[int, int]:
    at, read = decode_cursor(cursor)
    if not read.isdecimal() or not read.isascii() or len(read) > 9:
        raise InvalidRequest.of(
            "cursor", "is not a cursor of this listing.", "Use `next_cursor` of the page before."
        )
    return at, int(read)
