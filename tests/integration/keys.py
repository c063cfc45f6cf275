"""Keys for the tests of services that ask for them."""

from __future__ import annotations

from collections.abc import Iterable

from app.callers import ALL_SCOPES, Scope
from app.database import Database
from app.security.keys import Key
from app.services.keys import KeyRing


def new_key(
    database: Database,
    *scopes: Scope,
    tenant: str = "default",
    lifetime_s: float | None = None,
) -> Key:
    """A key with these scopes, or with all."""
    allowed: Iterable[Scope] = scopes or ALL_SCOPES
    return KeyRing(database).create(
        "a test", tenant=tenant, name="for a test", scopes=allowed, lifetime_s=lifetime_s
    )


def bearer(key: Key) -> dict[str, str]:
    """The header fields of a request with this key."""
    return {"Authorization": f"Bearer {key.text}"}


def headers_of(database: Database, *scopes: Scope, tenant: str = "default") -> dict[str, str]:
    """The header fields of a request with a new key."""
    return bearer(new_key(database, *scopes, tenant=tenant))
