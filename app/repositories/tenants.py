"""What is known of the tenants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from app.models import SHARED, Solve, SolveState, Tenant


class TenantRepository:
    """Queries and writes of the table `tenants`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, name: str) -> Tenant | None:
        """The tenant's own settings; None where it has none."""
        return self._session.get(Tenant, name)

    def queued(self, name: str) -> int:
        """How many solves of the tenant wait for a worker."""
        statement = select(func.count()).where(
            Solve.tenant == name, Solve.state == SolveState.QUEUED
        )
        return self._session.scalars(statement).one()

    def all(self) -> list[Tenant]:
        """The tenants that have settings of their own."""
        return list(self._session.scalars(select(Tenant).order_by(Tenant.name)))

    def change(self, name: str, changes: Mapping[str, Any]) -> Tenant:
        """The tenant after these changes; one without a row gets one."""
        tenant = self.get(name)
        if tenant is None:
            tenant = Tenant(name=name)
            self._session.add(tenant)
        for column, value in changes.items():
            setattr(tenant, column, value)
        self._session.flush()
        return tenant


def scope_of(name: str, tenant: Tenant | None) -> str:
    """Whose requests the solves of a tenant with these settings may answer, and whose may answer
    its own."""
    return SHARED if tenant is None or tenant.shares_answers else name


def scope_query(name: ColumnElement[str]) -> ColumnElement[str]:
    """The same as part of another query."""
    keeps_to_itself = select(Tenant.name).where(Tenant.name == name, ~Tenant.shares_answers)
    return func.coalesce(keeps_to_itself.scalar_subquery(), SHARED)
