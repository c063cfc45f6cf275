"""`loadmaster audit`: what was done with keys, limits and jobs."""

from __future__ import annotations

from pathlib import Path

import click

from client.administration.database import (
    data_dir_option,
    instant,
    open_database,
    print_columns,
)
from client.administration.keys import TenantName

HEADING = ("At", "Tenant", "Who", "What", "To", "Detail")


@click.command("audit")
@click.option("--tenant", type=TenantName(), help="Only this tenant's.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
@data_dir_option
def audit_command(tenant: str | None, limit: int, data_dir: Path | None) -> None:
    """List the newest entries of the audit log, the newest first."""
    from app.services.audit import AuditLog

    with open_database(data_dir) as database:
        entries = AuditLog(database).newest(tenant, limit)
    rows = [
        (
            instant(entry.at),
            entry.tenant,
            entry.actor,
            entry.action,
            entry.target or "–",
            entry.detail or "–",
        )
        for entry in entries
    ]
    print_columns(HEADING, rows)
