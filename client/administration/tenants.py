"""`loadmaster tenants`: what each tenant may do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from client.administration.database import data_dir_option, open_database, person, print_columns
from client.administration.keys import TenantName
from client.errors import InputError

AS_SET = "default"
LARGEST = 2**31 - 1
LIMITS = ("max_queued", "max_running", "requests_per_minute")
HEADING = ("Tenant", "Max queued", "Max running", "Requests per minute", "Answers")


class Limit(click.ParamType[int | str]):
    """A number, or `default` for what the service's settings say."""

    name = f"N|{AS_SET}"

    def __init__(self, least: int) -> None:
        self._least = least

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        """The number or `default`; fails where it is neither."""
        text = str(value)
        if text == AS_SET:
            return AS_SET
        if not (text.isascii() and text.isdecimal() and self._least <= int(text) <= LARGEST):
            self.fail(f"write a number from {self._least}, or {AS_SET}.", param, ctx)
        return int(text)


@click.group("tenants")
def tenants_command() -> None:
    """List and set what each tenant of a service may do."""


@tenants_command.command("list")
@data_dir_option
def list_command(data_dir: Path | None) -> None:
    """List the tenants that have settings of their own."""
    from app.services.tenants import Tenants

    with open_database(data_dir) as database:
        tenants = Tenants(database).all()
    rows = [
        (
            tenant.name,
            *(AS_SET if (v := getattr(tenant, n)) is None else str(v) for n in LIMITS),
            "shared" if tenant.shares_answers else "private",
        )
        for tenant in tenants
    ]
    print_columns(HEADING, rows)


@tenants_command.command("set")
@click.argument("tenant", type=TenantName())
@click.option("--max-queued", type=Limit(0), help="Most of its solves that wait at a time.")
@click.option("--max-running", type=Limit(1), help="Most of its solves that run at a time.")
@click.option("--requests-per-minute", type=Limit(0), help="Of each of its keys; 0 = any number.")
@click.option(
    "--private-answers/--shared-answers",
    default=None,
    help="Whether its requests are answered from, and stored for, itself alone.",
)
@data_dir_option
def set_command(
    tenant: str, private_answers: bool | None, data_dir: Path | None, **limits: int | str | None
) -> None:
    """Set what TENANT may do; what is not given stays as it is."""
    from app.services.tenants import Tenants

    changes: dict[str, Any] = {
        name: None if value == AS_SET else value
        for name, value in limits.items()
        if value is not None
    }
    if private_answers is not None:
        changes["shares_answers"] = not private_answers
    if not changes:
        raise InputError("tenants set", "changes nothing.", "Give at least one option.")
    with open_database(data_dir) as database:
        Tenants(database).change(person(), tenant, changes)
    click.echo(f"tenant {tenant}: set")
