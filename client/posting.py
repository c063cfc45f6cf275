"""The commands that post a request: `solve` (a pipeline schedule), `shard` (a sharding plan) and
`plan` (a training plan)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from client.configuration import read_request, read_sharding_request, read_training_request
from client.connecting import connect
from client.errors import EXIT_INTERRUPTED, InputError
from client.library.requests import DEFAULT_SERVER
from client.options import FiniteFloatRange, posting_options
from client.output import check_output
from client.solving import answer_of, finish, terminal, time_limit_s, with_options

SCHEDULE_ENGINES = ("auto", "cbc", "highs", "cp_sat")
seed_option = click.option("--seed", type=click.IntRange(0), help="Of what is drawn at random.")


@click.command("solve")
@posting_options(SCHEDULE_ENGINES, "auto runs every step; the others name the exact engine to use.")
@click.option(
    "--iterations",
    type=click.IntRange(1),
    help="Iterations of the search in place of a time limit: a reproducible answer.",
)
@seed_option
def solve_command(
    file: Path,
    wait: bool,
    id_only: bool,
    time_limit: float | None,
    iterations: int | None,
    engine: str | None,
    threads: int | None,
    seed: int | None,
    mipgap: float | None,
    fresh: bool,
    output: Path | None,
    server: str,
) -> None:
    """Post FILE (YAML or JSON) to be solved. Options win over what the file says."""
    check_output(output)
    options = {
        "time_limit_s": time_limit,
        "search_iterations": iterations,
        "engine": engine,
        "threads": threads,
        "seed": seed,
        "mip_gap": mipgap,
    }
    body = with_options(read_request(file), options)
    _post(
        "pipeline",
        body,
        fresh=fresh,
        wait=wait,
        id_only=id_only,
        output=output,
        server=server,
    )


@click.command("shard")
@posting_options(("cbc", "highs"), "The exact engine to use; cbc unless named.")
@click.option(
    "--devices", help="How many devices, or a cluster such as 8xA100-40GB, to shard over."
)
@click.option(
    "--alpha",
    type=FiniteFloatRange(0),
    help="Bytes of redundancy that a communicated byte is worth.",
)
def shard_command(
    file: Path,
    wait: bool,
    id_only: bool,
    time_limit: float | None,
    engine: str | None,
    threads: int | None,
    mipgap: float | None,
    devices: str | None,
    alpha: float | None,
    fresh: bool,
    output: Path | None,
    server: str,
) -> None:
    """Post FILE (YAML or JSON) for a sharding plan: which operator is split how over the devices.

    Options win over what the file says.
    """
    check_output(output)
    options = {
        "time_limit_s": time_limit,
        "engine": engine,
        "threads": threads,
        "mip_gap": mipgap,
    }
    body = with_options(read_sharding_request(file), options)
    if devices is not None:
        body["devices"] = int(devices) if devices.isdecimal() else devices
    if body.get("devices") is None:
        raise InputError(
            "devices",
            "is missing.",
            "Give --devices, or `devices` in the file, beside `graph` or `transformer`.",
        )
    if alpha is not None:
        body["alpha"] = alpha
    _post(
        "sharding",
        body,
        fresh=fresh,
        wait=wait,
        id_only=id_only,
        output=output,
        server=server,
    )


@click.command("plan")
@posting_options(SCHEDULE_ENGINES, "Of the finalists' schedules, as for `solve`.")
@seed_option
@click.option("--top", type=click.IntRange(1), help="How many plans to rank.")
@click.option("--finalists", type=click.IntRange(0), help="How many of them get a schedule solved.")
@click.option(
    "--pareto/--no-pareto", default=None, help="Also throughput against headroom and GPUs."
)
def plan_command(
    file: Path,
    wait: bool,
    id_only: bool,
    time_limit: float | None,
    engine: str | None,
    threads: int | None,
    seed: int | None,
    mipgap: float | None,
    top: int | None,
    finalists: int | None,
    pareto: bool | None,
    fresh: bool,
    output: Path | None,
    server: str,
) -> None:
    """Post FILE (YAML or JSON) for a training plan: how to train the model on the cluster.

    Options win over what the file says.
    """
    check_output(output)
    options = {
        "time_limit_s": time_limit,
        "engine": engine,
        "threads": threads,
        "seed": seed,
        "mip_gap": mipgap,
    }
    body = with_options(read_training_request(file), options)
    search = {"top": top, "finalists": finalists, "pareto": pareto}
    given = {name: value for name, value in search.items() if value is not None}
    if given:
        body["search"] = {**(body.get("search") or {}), **given}
    _post(
        "training",
        body,
        fresh=fresh,
        wait=wait,
        id_only=id_only,
        output=output,
        server=server,
    )


def _post(
    kind: str,
    body: Mapping[str, Any],
    *,
    fresh: bool,
    wait: bool,
    id_only: bool,
    output: Path | None,
    server: str,
) -> None:
    """Post, and wait for the answer and show it if that is asked for."""
    console = terminal(on_stderr=id_only)
    with connect(server) as client:
        submission = client.submit(kind, body, fresh=fresh)
        job_id = submission["id"]
        if id_only:
            click.echo(job_id)
        if not (wait or output):
            if not id_only:
                _say_accepted(submission, server)
            return
        try:
            result = answer_of(client, submission, console, time_limit_s(body))
        except KeyboardInterrupt:
            words = _server_words(server)
            click.echo(
                f"\njob {job_id} goes on without you\n"
                f"  look again:          loadmaster show {job_id}{words}\n"
                f"  stop, keep its best: loadmaster cancel {job_id}{words}",
                err=True,
            )
            sys.exit(EXIT_INTERRUPTED)
        status = finish(console, kind, result, output)
        if not id_only:
            _say_next(job_id, server, has_plan=status == 0)
        sys.exit(status)


def _say_accepted(submission: dict[str, Any], server: str) -> None:
    job_id = submission["id"]
    position = submission.get("queue_position")
    queue = f", position {position} in the queue" if position else ""
    click.echo(f"job {job_id}: {submission['state']} ({submission['cache']}{queue})")
    click.echo(f"look: loadmaster show {job_id}{_server_words(server)}")


def _say_next(job_id: str, server: str, *, has_plan: bool) -> None:
    words = _server_words(server)
    click.echo(f"\njob {job_id}")
    if has_plan:
        click.echo(f"formats:   loadmaster formats {job_id}{words}")
        click.echo(f"export:    loadmaster export {job_id} --to FORMAT -o FILE{words}")
    click.echo(f"its log:   loadmaster show {job_id} --log{words}")


def _server_words(server: str) -> str:
    return "" if server == DEFAULT_SERVER else f" --server {server}"
