"""`Idempotency-Key`: a request that is sent again under its key makes nothing new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from app.database import milliseconds
from app.errors import IdempotencyKeyReused
from app.models import IdempotencyKey
from app.repositories.idempotency import IdempotencyRepository
from app.settings import Settings
from planner.documents import canonical_hash


@dataclass(frozen=True)
class RequestKey:
    """The key that a client gave a request, and the hash of what it asked for."""

    key: str
    request_hash: str

    @classmethod
    def of(
        cls, key: str | None, *, kind: str, body: Mapping[str, Any], fresh: bool
    ) -> RequestKey | None:
        """The key of this request; None without one. `kind` stands for the address."""
        if key is None:
            return None
        asked = {"kind": kind, "body": body, "fresh": fresh}
        return cls(key, canonical_hash(asked))


def made_before(session: Session, settings: Settings, tenant: str, key: RequestKey) -> str | None:
    """The id of what this request has made already.

    Raises `IdempotencyKeyReused` if another request came under the same key.
    """
    known = _keys(session, settings).find(tenant, key.key)
    return None if known is None else _made_id(known, key)


def claim(session: Session, settings: Settings, tenant: str, key: RequestKey, made_id: str) -> bool:
    """Whether the key was free: what the transaction makes is then known under it."""
    return _keys(session, settings).claim(tenant, key.key, key.request_hash, made_id)


def _keys(session: Session, settings: Settings) -> IdempotencyRepository:
    return IdempotencyRepository(session, milliseconds(settings.idempotency_key_lifetime_s))


def _made_id(known: IdempotencyKey, key: RequestKey) -> str:
    if known.request_hash != key.request_hash:
        raise IdempotencyKeyReused.of(
            "Idempotency-Key",
            "was used for another request.",
            "Give each request a key of its own, and the same body when it is sent again.",
        )
    return known.made_id
