"""`loadmaster export` and `formats`: a job's answer in the format of another program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from client.connecting import connect
from client.options import server_option
from client.output import check_output, write_text
from client.printing import print_lines, print_title

_OUTPUT = click.Path(dir_okay=False, readable=False, path_type=Path)
INDENT = 4


@click.command("export")
@click.argument("job_id", metavar="ID")
@click.option("--to", "name", metavar="FORMAT", required=True, help="See `loadmaster formats`.")
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


@click.command("formats")
@click.argument("job_id", metavar="[ID]", required=False)
@server_option
def formats_command(job_id: str | None, server: str) -> None:
    """List the formats of plans, or those of the plan of one job."""
    with connect(server) as client:
        formats = client.formats() if job_id is None else client.exports(job_id)
    console = Console()
    kind = None
    for entry in formats:
        if entry.get("kind") != kind:
            kind = entry["kind"]
            print_title(console, f"{kind}:")
        print_title(console, f"  {entry['format']}")
        print_lines(console, _lines(entry), indent=INDENT)
    if not formats:
        click.echo("There is no plan to export.")


def _lines(entry: Mapping[str, Any]) -> Iterator[str]:
    yield entry["title"]
    if entry["written_for"]:
        yield f"for {entry['written_for']}"
    if "carries" in entry:
        yield f"carries: {entry['carries']}"
        yield f"leaves out: {entry['leaves_out']}"
    if entry.get("hindrance"):
        yield f"not to be had of this plan: {entry['hindrance']}"
