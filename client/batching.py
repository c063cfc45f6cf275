"""`loadmaster batch`: the requests of many files as one batch, and how their answers compare."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from client.configuration import read_request, read_sharding_request, read_training_request
from client.connecting import connect
from client.documents import read_document
from client.errors import EXIT_INFEASIBLE, EXIT_INTERRUPTED, EXIT_NO_PLAN
from client.figures import milliseconds, percent, size
from client.library.requests import DEFAULT_SERVER, TERMINAL_STATES, batch_body
from client.library.service import Service
from client.options import output_option, server_option
from client.output import check_output, write_result
from client.solving import terminal
from client.tables import Column, plain_table, texts

READERS: Mapping[str, Callable[[Path], dict[str, Any]]] = {
    "pipeline": read_request,
    "sharding": read_sharding_request,
    "training": read_training_request,
}
SHARDING_KEYS = {"graph", "transformer", "operators"}
TRAINING_KEYS = {"search", "memory_headroom", "routing_frequency"}
RATIO, BOUND, ENGINE = "Ratio", "Bound", "Engine"
LEAST_IMPORTANT = (ENGINE, BOUND, RATIO)
"""What a narrow terminal does without, in this order."""
FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("batch")
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=FILE)
@click.option(
    "--kind",
    type=click.Choice(tuple(READERS)),
    help="What all files ask for; otherwise sharding where they have a graph or a transformer, "
    "training where they have a search, and else pipeline.",
)
@click.option("--name", help="Of the batch.")
@click.option("--tag", "tags", multiple=True, help="Of each job; may be given several times.")
@click.option("--wait", is_flag=True, help="Wait for all answers and compare them.")
@click.option("--fresh", is_flag=True, help="Solve again even what is stored.")
@output_option("Write the comparison here as JSON (waits for it).")
@server_option
def batch_command(
    files: tuple[Path, ...],
    kind: str | None,
    name: str | None,
    tags: tuple[str, ...],
    wait: bool,
    fresh: bool,
    output: Path | None,
    server: str,
) -> None:
    """Post the requests in all FILEs (YAML or JSON) as one batch: all are taken on, or none.

    A job is named after its file unless the file says another name.
    """
    check_output(output)
    body = batch_body([entry_of(file, kind) for file in files], name, tags, None)
    console = terminal()
    with connect(server) as service:
        accepted = service.submit_batch(body, fresh=fresh)
        known = ", ".join(f"{count} {cache}" for cache, count in accepted["cache"].items())
        console.print(f"batch {accepted['id']}: {accepted['jobs']} jobs ({known})", markup=False)
        if not (wait or output):
            _show(console, service.batch(accepted["id"]))
            return
        try:
            view = _waited_for(service, accepted["id"], console)
        except KeyboardInterrupt:
            words = "" if server == DEFAULT_SERVER else f" --server {server}"
            click.echo(
                f"\nits jobs go on without you\n  look again: loadmaster jobs{words}",
                err=True,
            )
            sys.exit(EXIT_INTERRUPTED)
    if output is not None:
        write_result(output, view)
    _show(console, view)
    sys.exit(exit_status_of([row["state"] for row in view["comparison"]]))


def entry_of(file: Path, kind: str | None) -> Any:
    """A file as an entry of a batch. Raises `InputError`."""
    kind = kind or _guessed(read_document(file))
    return {"kind": kind, "name": file.stem, "request": READERS[kind](file)}


def exit_status_of(states: Sequence[str]) -> int:
    """0 where all have a plan, 4 where something does not fit, 5 where something has no plan."""
    if all(state == "succeeded" for state in states):
        return 0
    without = any(state not in ("succeeded", "infeasible") for state in states)
    return EXIT_NO_PLAN if without else EXIT_INFEASIBLE


def comparison_table(rows: Sequence[Mapping[str, Any]], width: int) -> Table:
    """The jobs of a batch in the order of their files."""
    columns = [
        Column("Job", texts(row["job_id"] for row in rows)),
        Column("Name", texts(row["name"] or "" for row in rows)),
        Column("State", texts(row["state"] for row in rows)),
        Column(ENGINE, texts(row["engine"] for row in rows)),
        Column("Best", texts(_objective(row, "objective") for row in rows), True),
        Column(BOUND, texts(_objective(row, "bound") for row in rows), True),
        Column("Gap", texts(percent(row["gap"], 2) for row in rows), True),
        Column(RATIO, texts(_ratio(row["ratio"]) for row in rows), True),
    ]
    return plain_table(columns, width, LEAST_IMPORTANT)


def _guessed(document: Mapping[str, Any]) -> str:
    if document.keys() & SHARDING_KEYS:
        return "sharding"
    return "training" if document.keys() & TRAINING_KEYS else "pipeline"


def _waited_for(service: Service, batch_id: str, console: Console) -> Mapping[str, Any]:
    view: Mapping[str, Any] = {}
    said = -1
    for view in service.follow_batch(batch_id):
        over = sum(row["state"] in TERMINAL_STATES for row in view["comparison"])
        if over != said:
            console.print(f"{over} of {view['jobs']} jobs are over", style="dim")
            said = over
    return view


def _show(console: Console, view: Mapping[str, Any]) -> None:
    console.print(comparison_table(view["comparison"], console.width), crop=False)


def _objective(row: Mapping[str, Any], name: str) -> str:
    if row["kind"] == "sharding":
        return size(row[name])
    return "–" if row[name] is None else f"{milliseconds(row[name])} ms"


def _ratio(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.3f}"
