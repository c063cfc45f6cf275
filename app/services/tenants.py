"""What each tenant may do, as whoever runs the service sees it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from app.callers import Caller
from app.database import Database
from app.models import Tenant
from app.repositories.tenants import TenantRepository
from app.services.audit import record

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What a tenant can be called."""


class Tenants:
    """The tenants' settings, each call one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[Tenant]:
        """The tenants that have settings of their own."""
        with self._database.reading() as session:
            return TenantRepository(session).all()

    def change(self, by: str, name: str, changes: Mapping[str, Any]) -> Tenant:
        """The tenant after these changes of its columns."""
        with self._database.writing() as session:
            tenant = TenantRepository(session).change(name, changes)
            person = Caller(tenant=name, actor=by, scopes=frozenset())
            detail = ", ".join(f"{column} = {value}" for column, value in changes.items())
            record(session, person, "limits changed", name, detail)
        return tenant
