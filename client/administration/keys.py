"""`loadmaster keys`: make, list and revoke API keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from client.administration.database import (
    data_dir_option,
    instant,
    open_database,
    person,
    print_columns,
)
from client.errors import ClientError, InputError

if TYPE_CHECKING:
    from app.models import ApiKey

SCOPES = ("submit", "read", "admin", "metrics")
UNITS_S = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
LONGEST_S = 100 * 366 * 86_400
HEADING = ("ID", "Tenant", "Name", "Scopes", "Created", "Expires", "Last used", "State")


class Duration(click.ParamType[float]):
    """A number with a unit, as seconds: 30m, 12h, 90d, 4w."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The seconds; fails where it is no duration."""
        match = re.fullmatch(r"([0-9]{1,9})([mhdw])", str(value))
        seconds = int(match[1]) * UNITS_S[match[2]] if match else 0
        if not 0 < seconds <= LONGEST_S:
            self.fail(f"{value!r} is not a duration; write 90d, 12h or 30m.", param, ctx)
        return seconds


class TenantName(click.ParamType[str]):
    """What can be the name of a tenant."""

    name = "tenant"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """The name; fails where it cannot be one."""
        from app.services.tenants import NAME

        if NAME.fullmatch(str(value)) is None:
            self.fail(
                f"{value!r} cannot be a tenant's name; use up to 64 letters, digits, '.', '_' "
                "and '-', the first a letter or digit.",
                param,
                ctx,
            )
        return str(value)


@click.group("keys")
def keys_command() -> None:
    """Make, list and revoke the API keys of a service."""


@keys_command.command("create")
@click.option("--tenant", type=TenantName(), default="default", show_default=True)
@click.option("--name", default="", help="What or whom the key is for.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    default=("submit", "read"),
    show_default=True,
    help="What the key allows; can be given several times.",
)
@click.option(
    "--expires", type=Duration(), help="How long it is valid: 90d, 12h; for ever without."
)
@data_dir_option
def create_command(
    tenant: str, name: str, scopes: tuple[str, ...], expires: float | None, data_dir: Path | None
) -> None:
    """Make a key and print it. Only its hash is stored, so that nobody can print it again."""
    from app.callers import Scope
    from app.services.keys import KeyRing

    if len(name) > 200 or not name.isprintable():
        raise InputError("--name", "cannot be so.", "Write up to 200 printable characters.")
    with open_database(data_dir) as database:
        key = KeyRing(database).create(
            person(), tenant=tenant, name=name, scopes=map(Scope, scopes), lifetime_s=expires
        )
    click.echo(key.text)
    click.echo(f"key {key.id} of tenant {tenant}; it is not shown again", err=True)


@keys_command.command("list")
@click.option("--tenant", type=TenantName(), help="Only this tenant's.")
@data_dir_option
def list_command(tenant: str | None, data_dir: Path | None) -> None:
    """List the keys, by their ids."""
    from app.services.keys import KeyRing

    with open_database(data_dir) as database:
        keys, now = KeyRing(database).all(tenant)
    print_columns(HEADING, [_row(key, now) for key in keys])


@keys_command.command("revoke")
@click.argument("key_id", metavar="ID")
@data_dir_option
def revoke_command(key_id: str, data_dir: Path | None) -> None:
    """Let nobody in with a key any more, within 5 seconds."""
    from app.services.keys import KeyRing

    with open_database(data_dir) as database:
        if not KeyRing(database).revoke(person(), key_id):
            raise ClientError(f"there is no key {key_id}; `loadmaster keys list` lists them")
    click.echo(f"key {key_id}: revoked")


def _row(key: ApiKey, now: int) -> tuple[str, ...]:
    expired = key.expires_at is not None and key.expires_at <= now
    state = "revoked" if key.revoked_at is not None else "expired" if expired else "valid"
    times = (key.created_at, key.expires_at, key.last_used_at)
    return (key.id, key.tenant, key.name or "–", key.scopes, *map(instant, times), state)
