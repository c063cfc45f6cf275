"""How much of the queue one tenant may take."""

from __future__ import annotations

from sqlalchemy.orm import Session

from app.errors import TooManyQueued
from app.repositories.locks import lock_until_commit
from app.repositories.tenants import TenantRepository
from app.settings import Settings

RETRY_AFTER_S = 30


def check_queued(session: Session, tenant: str, settings: Settings) -> None:
    """Raise `TooManyQueued` if more solves of the tenant wait than may, those of this transaction
    included; requests that are answered from the store or join a solve take no place."""
    tenants = TenantRepository(session)
    own = tenants.get(tenant)
    most = settings.max_queued_per_tenant if own is None else own.max_queued
    if most is None:
        most = settings.max_queued_per_tenant
    # Without it two transactions would each count all but the other's solves. It comes after all
    # locks of rows, so that whoever holds it waits for nobody.
    lock_until_commit(session, f"queued of {tenant}")
    if tenants.queued(tenant) > most:
        raise TooManyQueued(
            f"At most {most} solves of a tenant may wait; post again when some have begun, or "
            "cancel some.",
            headers={"Retry-After": str(RETRY_AFTER_S)},
        )
