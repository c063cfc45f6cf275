"""What is known of the tenants."""

from __future__ import annotations

from sqlalchemy.orm import Session

from app.models import SHARED, Tenant


class TenantRepository:
    """Queries and writes of the table `tenants`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, name: str) -> Tenant | None:
        """The tenant's own settings; None where it has none."""
        return self._session.get(Tenant, name)

    def scope_of(self, name: str) -> str:
        """Whose requests the tenant's solves may answer, and whose may answer its own."""
        tenant = self.get(name)
        return SHARED if tenant is None or tenant.shares_answers else name
