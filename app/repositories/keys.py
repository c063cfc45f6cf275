"""API keys: adding, finding, listing and revoking them."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from app.database import clock_ms
from app.models import ApiKey, Tenant


class KnownKey(NamedTuple):
    """What a request needs to know of its key."""

    tenant: str
    secret_hash: str
    scopes: str
    revoked: bool
    # Until it expires; None = it does not.
    left_ms: int | None
    last_used_ago_ms: int | None
    requests_per_minute: int | None


class KeyRepository:
    """Queries and writes of the table `api_keys`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(
        self,
        *,
        key_id: str,
        secret_hash: str,
        tenant: str,
        name: str,
        scopes: str,
        lifetime_ms: int | None,
    ) -> None:
        """Store a new key."""
        expires_at = None if lifetime_ms is None else clock_ms() + lifetime_ms
        key = ApiKey(
            id=key_id,
            secret_hash=secret_hash,
            tenant=tenant,
            name=name,
            scopes=scopes,
            expires_at=expires_at,
        )
        self._session.add(key)
        self._session.flush()

    def find(self, key_id: str) -> KnownKey | None:
        """The key with this id and its tenant's rate limit, by one query."""
        statement = (
            select(
                ApiKey.tenant,
                ApiKey.secret_hash,
                ApiKey.scopes,
                ApiKey.revoked_at.is_not(None),
                ApiKey.expires_at - clock_ms(),
                clock_ms() - ApiKey.last_used_at,
                Tenant.requests_per_minute,
            )
            .outerjoin(Tenant, Tenant.name == ApiKey.tenant)
            .where(ApiKey.id == key_id)
        )
        row = self._session.execute(statement).one_or_none()
        return None if row is None else KnownKey(*row)

    def all(self, tenant: str | None) -> list[ApiKey]:
        """The keys, of one tenant or of all, the newest last."""
        statement = select(ApiKey).order_by(ApiKey.tenant, ApiKey.created_at, ApiKey.id)
        if tenant is not None:
            statement = statement.where(ApiKey.tenant == tenant)
        return list(self._session.scalars(statement))

    def revoke(self, key_id: str) -> ApiKey | None:
        """The key, which from now on lets nobody in; None if there is none with this id."""
        key = self._session.get(ApiKey, key_id)
        if key is not None and key.revoked_at is None:
            key.revoked_at = self._session.scalars(select(clock_ms())).one()
        return key

    def note_use(self, key_id: str, unless_within_ms: int) -> None:
        """Remember that the key was used, unless that was noted just before."""
        long_ago = or_(
            ApiKey.last_used_at.is_(None), ApiKey.last_used_at < clock_ms() - unless_within_ms
        )
        self._session.execute(
            update(ApiKey)
            .where(ApiKey.id == key_id, long_ago)
            .values(last_used_at=clock_ms())
            .execution_options(synchronize_session=False)
        )
