"""`loadmaster runs`: training runs and the plans that follow them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import click

from client.connecting import connect
from client.errors import EXIT_NO_PLAN, ServiceUnreachable
from client.following_tables import (
    diagnosis_lines,
    event_lines,
    plan_lines,
    print_run,
    proposal_lines,
    run_table,
)
from client.library.following import LOST_SERVICE_AFTER_S
from client.library.requests import Document
from client.library.run_views import RunView
from client.library.runs import Runs
from client.options import CommandT, json_option, server_option
from client.printing import print_json, print_lines, print_table
from client.solving import terminal

LOOK_EVERY_S = 1.0


def _reading(command: CommandT) -> CommandT:
    """`--json`, `--server` and `--api-key-file`."""
    return json_option(server_option(command))


@click.group("runs")
def runs_command() -> None:
    """Training runs: how they are getting on, and the plans that follow them."""


@runs_command.command("list")
@click.option("--state", type=click.Choice(["active", "stopped"]), help="Only runs in this state.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@_reading
def list_command(state: str | None, limit: int, as_json: bool, server: str) -> None:
    """List runs, the newest first."""
    with connect(server) as service:
        runs = [run.document for run in Runs(service.ask).list(limit=limit, state=state)]
    if as_json:
        print_json({"runs": runs})
        return
    console = terminal()
    if runs:
        print_table(console, run_table(runs, console.width))
    else:
        console.print("no runs")


@runs_command.command("show")
@click.argument("run_id", metavar="ID")
@_reading
def show_command(run_id: str, as_json: bool, server: str) -> None:
    """Show a run: its versions, what is measured of its stages, and what has happened."""
    with connect(server) as service:
        run = Runs(service.ask).get(run_id).document
    if as_json:
        print_json(run)
    else:
        print_run(terminal(), run)


@runs_command.command("stop")
@click.argument("run_id", metavar="ID")
@click.option("--purge", is_flag=True, help="Remove it, with all that was measured, for good.")
@server_option
def stop_command(run_id: str, purge: bool, server: str) -> None:
    """Follow a run no longer. Its training goes on with the plan that it has."""
    with connect(server) as service:
        runs = Runs(service.ask)
        run = runs.stop(run_id)
        if purge:
            runs.purge(run_id)
    click.echo(f"run {run_id}: {'removed' if purge else run.state}")


@runs_command.command("plan")
@click.argument("run_id", metavar="ID")
@click.option("--version", type=click.IntRange(1), help="This one instead of the newest.")
@_reading
def plan_command(run_id: str, version: int | None, as_json: bool, server: str) -> None:
    """Show how a plan of a run stands; with --json the plan itself."""
    with connect(server) as service:
        plan = Runs(service.ask).plan(run_id, version)
    if plan is None:
        click.echo(f"run {run_id}: no plan yet", err=True)
        raise SystemExit(EXIT_NO_PLAN)
    if as_json:
        print_json(plan.document)
    else:
        print_lines(terminal(), plan_lines(plan.document))


@runs_command.command("diagnose")
@click.argument("run_id", metavar="ID")
@_reading
def diagnose_command(run_id: str, as_json: bool, server: str) -> None:
    """Show what its telemetry says is wrong, how to check that, and what would help."""
    _show_answer(server, lambda runs: runs.diagnosis(run_id), as_json, diagnosis_lines)


@runs_command.command("proposals")
@click.argument("run_id", metavar="ID")
@_reading
def proposals_command(run_id: str, as_json: bool, server: str) -> None:
    """Show other shapes that would be faster: micro-batches, layers per stage."""
    _show_answer(server, lambda runs: runs.proposals(run_id), as_json, proposal_lines)


@runs_command.command("watch")
@click.argument("run_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@server_option
def watch_command(run_id: str, as_json: bool, server: str) -> None:
    """Show what happens to a run until it is stopped."""
    console = terminal()
    # They are numbered from 0.
    seen = -1
    with connect(server) as service:
        runs = Runs(service.ask)
        while True:
            run = _patiently(runs, run_id)
            new = [event for event in reversed(run.events) if event["seq"] > seen]
            for event in new:
                seen = event["seq"]
                if as_json:
                    click.echo(json.dumps(event))
                else:
                    print_lines(console, event_lines([event]))
            if run.state == "stopped":
                return
            time.sleep(LOOK_EVERY_S)


def _patiently(runs: Runs, run_id: str) -> RunView:
    """The run; a service that is away for a moment is waited for."""
    ends = time.monotonic() + LOST_SERVICE_AFTER_S
    while True:
        try:
            return runs.get(run_id)
        except ServiceUnreachable:
            if time.monotonic() > ends:
                raise
            time.sleep(LOOK_EVERY_S)


def _show_answer(
    server: str,
    ask: Callable[[Runs], Document],
    as_json: bool,
    lines: Callable[[Mapping[str, Any]], Any],
) -> None:
    with connect(server) as service:
        answer = ask(Runs(service.ask))
    if as_json:
        print_json(answer)
    else:
        print_lines(terminal(), lines(answer))
