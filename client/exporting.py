"""`loadmaster export`: a job's answer in the format of another program."""

from __future__ import annotations

from pathlib import Path

import click

from client.connecting import connect
from client.options import server_option
from client.output import check_output, write_text

_OUTPUT = click.Path(dir_okay=False, readable=False, path_type=Path)


@click.command("export")
@click.argument("job_id", metavar="ID")
@click.option(
    "--to",
    "name",
    metavar="FORMAT",
    required=True,
    help="The format; `csv`, `chrome-trace`, … (GET /v1/exports has all).",
)
@click.option("-o", "--output", type=_OUTPUT, help="Write the file here instead of printing it.")
@server_option
def export_command(job_id: str, name: str, output: Path | None, server: str) -> None:
    """Write the plan of a job that is over for another program."""
    check_output(output)
    with connect(server) as client:
        text = client.export(job_id, name)
    if output is None:
        click.echo(text, nl=False)
        return
    write_text(output, text)
    click.echo(f"exported file: {output}", err=True)
