"""Who asks: the tenant that a request speaks for, and what it may do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.models import DEFAULT_TENANT


class Scope(StrEnum):
    """What a key allows: posting and cancelling; looking; purges and the audit log, all of its
    tenant; and the figures of the whole service, which are of all tenants."""

    SUBMIT = "submit"
    READ = "read"
    ADMIN = "admin"
    METRICS = "metrics"


ALL_SCOPES = frozenset(Scope)


@dataclass(frozen=True)
class Caller:
    """`actor` is what the audit log writes: the id of a key, or how else the person came in."""

    tenant: str
    actor: str
    scopes: frozenset[Scope]


ANYBODY = Caller(tenant=DEFAULT_TENANT, actor="anybody", scopes=ALL_SCOPES)
"""Whoever reaches a service that asks for no key."""
