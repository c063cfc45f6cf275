"""`loadmaster calibrations`: what runs say of the cost model, by kind of GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import click
from rich.console import Console
from rich.table import Table

from client.connecting import connect
from client.figures import percent
from client.library.requests import Call, Document
from client.library.service import new_key
from client.options import json_option, server_option
from client.printing import print_json, print_lines, print_table, print_title
from client.solving import terminal
from client.tables import Column, Row, plain_table, texts

PATH = "/v1/calibrations"
FACTORS = {
    "compute": "matrix products",
    "pcie": "PCIe",
    "nvlink": "between GPUs of a node",
    "network": "between nodes",
}
GROUPS = {"stage_times": "stage times", "transfers": "transfers", "offloads": "offloads"}
BASES = {"left_out": "of runs left out of the fit", "in_sample": "of the fitted run itself"}


@click.group("calibrations")
def calibrations_command() -> None:
    """Calibrations of the cost model, fitted to what runs measured."""


@calibrations_command.command("list")
@click.argument("gpu", required=False)
@json_option
@server_option
def list_command(gpu: str | None, as_json: bool, server: str) -> None:
    """List the newest calibration of each kind of GPU, or all versions of GPU."""
    path = PATH if gpu is None else f"{PATH}/{quote(gpu, safe='')}"
    answer = _ask(server, Call("GET", path))
    if as_json:
        print_json(answer)
        return
    items = answer["calibrations" if gpu is None else "versions"]
    console = terminal()
    if items:
        print_table(console, _table(items, console.width))
    else:
        console.print("no calibrations")


@calibrations_command.command("show")
@click.argument("gpu")
@click.argument("version", type=click.IntRange(1), required=False)
@json_option
@server_option
def show_command(gpu: str, version: int | None, as_json: bool, server: str) -> None:
    """Show a VERSION of GPU's calibration, by default the newest."""
    versions = f"{PATH}/{quote(gpu, safe='')}"
    with connect(server) as service:
        if version is None:
            version = service.ask(Call("GET", versions))["versions"][0]["version"]
        answer = service.ask(Call("GET", f"{versions}/{version}"))
    _show(answer, as_json)


@calibrations_command.command("fit")
@click.option("--gpu", help="The kind of GPU, if the runs are on several.")
@click.option("--run", "runs", multiple=True, metavar="ID", help="Only these runs; repeat it.")
@click.option("--dry-run", is_flag=True, help="Fit, and keep nothing.")
@json_option
@server_option
def fit_command(
    gpu: str | None, runs: Sequence[str], dry_run: bool, as_json: bool, server: str
) -> None:
    """Fit the cost model's factors to runs, as a new version."""
    body: dict[str, Any] = {}
    if gpu is not None:
        body["gpu"] = gpu
    if runs:
        body["runs"] = list(runs)
    params: dict[str, str | int] = {"validate_only": "true"} if dry_run else {}
    headers = {} if dry_run else {"Idempotency-Key": new_key()}
    _show(_ask(server, Call("POST", PATH, params=params, headers=headers, body=body)), as_json)


def _ask(server: str, call: Call) -> Document:
    with connect(server) as service:
        return service.ask(call)


def _show(answer: Row, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        print_calibration(terminal(), answer)


def _table(items: Sequence[Row], width: int) -> Table:
    return plain_table(
        [
            Column("GPU", texts(item["gpu"] for item in items)),
            Column("Version", texts(str(item["version"]) for item in items), True),
            Column("Runs", texts(str(item["runs"]) for item in items), True),
            Column("Before", texts(_error(item, "before") for item in items), True),
            Column("After", texts(_error(item, "after") for item in items), True),
            Column("Made", texts(item["created_at"][:19].replace("T", " ") for item in items)),
        ],
        width,
        ["Made", "Before"],
    )


def _error(item: Row, when: str) -> str:
    errors = item["errors"]["stage_times"]
    return "–" if errors is None else percent(errors[when]["median"])


def print_calibration(console: Console, calibration: Row) -> None:
    """A calibration: its factors, errors before and after, and runs that do not count."""
    version = calibration.get("version")
    kept = "not kept" if version is None else f"version {version}"
    print_title(console, f"calibration of {calibration['gpu']}, {kept}")
    print_table(console, _factor_table(calibration["factors"], console.width))
    print_lines(console, _lines(calibration))


def _factor_table(factors: Mapping[str, Row], width: int) -> Table:
    rows = [factors[name] for name in FACTORS]
    return plain_table(
        [
            Column("Factor", texts(f"{name} ({words})" for name, words in FACTORS.items())),
            Column("Value", texts(percent(own["value"]) for own in rows), True),
            Column("Built in", texts(percent(own["built_in"]) for own in rows), True),
            Column("Runs", texts(str(own["runs"]) for own in rows), True),
            Column("Samples", texts(str(own["samples"]) for own in rows), True),
            Column("Sure", texts(percent(own["confidence"]) for own in rows), True),
            Column("Why", texts(own["reason"] for own in rows)),
        ],
        width,
        ["Why", "Samples", "Built in"],
    )


def _lines(calibration: Row) -> Iterator[str]:
    margin = calibration["memory_margin"]
    yield f"memory margin: {margin['value']:.3f} ({margin['reason']})"
    for group, words in GROUPS.items():
        errors = calibration["errors"][group]
        if errors is not None:
            yield (
                f"{words}: error {percent(errors['before']['median'])} before, "
                f"{percent(errors['after']['median'])} after (worst "
                f"{percent(errors['before']['worst'])}, {percent(errors['after']['worst'])}; "
                f"{BASES[errors['basis']]})"
            )
    yield f"fitted to {len(calibration['runs'])} run(s)"
    for own in calibration["left_out"]:
        yield f"left out: {own['id']}: {own['reason']}"
