"""Idempotency keys: which request was taken on under which key, and what it made."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.database import clock_ms, insert_or_not
from app.models import IdempotencyKey


class IdempotencyRepository:
    """Queries and writes of the table `idempotency_keys`. Expired keys are as good as gone."""

    def __init__(self, session: Session, lifetime_ms: int) -> None:
        self._session = session
        self._expired = IdempotencyKey.created_at < clock_ms() - lifetime_ms

    def find(self, tenant: str, key: str) -> IdempotencyKey | None:
        """What is known under this key of this tenant."""
        statement = select(IdempotencyKey).where(
            IdempotencyKey.tenant == tenant, IdempotencyKey.key == key, ~self._expired
        )
        return self._session.scalars(statement).one_or_none()

    def claim(self, tenant: str, key: str, request_hash: str, made_id: str) -> bool:
        """Whether the key was free and is now this request's.

        Another transaction that is claiming the same key is waited for.
        """
        made = {"request_hash": request_hash, "made_id": made_id, "created_at": clock_ms()}
        statement = (
            insert_or_not(self._session, IdempotencyKey)
            .values(tenant=tenant, key=key, **made)
            .on_conflict_do_update(index_elements=["tenant", "key"], set_=made, where=self._expired)
            .returning(IdempotencyKey.key)
        )
        return self._session.scalars(statement).one_or_none() is not None

    def forget_expired(self) -> None:
        """Delete the keys that have expired."""
        self._session.execute(
            delete(IdempotencyKey).where(self._expired).execution_options(synchronize_session=False)
        )


def forget_keys_of(session: Session, made_ids: Sequence[str]) -> None:
    """Delete the keys of jobs or batches that are removed themselves."""
    session.execute(
        delete(IdempotencyKey)
        .where(IdempotencyKey.made_id.in_(made_ids))
        .execution_options(synchronize_session=False)
    )
