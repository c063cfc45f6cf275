"""`loadmaster slurm`: a plan as a batch script, printed or handed to `sbatch`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from urllib.parse import urlsplit

import click

from client.connecting import access, connect
from client.errors import ClientError, InputError
from client.options import server_option

FORMAT = "slurm"
THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


@click.group("slurm")
def slurm_command() -> None:
    """Run plans on a cluster with Slurm."""


@slurm_command.command("script")
@click.argument("job_id", metavar="ID")
@server_option
def script_command(job_id: str, server: str) -> None:
    """Print the batch script of a plan, to be changed and given to sbatch."""
    with connect(server) as client:
        click.echo(client.export(job_id, FORMAT), nl=False)


# What follows ID is sbatch's, its own -h and --help too.
@slurm_command.command("submit", context_settings={"allow_interspersed_args": False})
@server_option
@click.argument("job_id", metavar="ID")
@click.argument(
    "arguments",
    metavar="[SBATCH_OPTION]… -- PROGRAM [ARGUMENT]…",
    nargs=-1,
    type=click.UNPROCESSED,
)
def submit_command(job_id: str, arguments: Sequence[str], server: str) -> None:
    """Submit the batch script of a plan.

    PROGRAM is what torchrun starts on each GPU. The job fetches the plan with the key that this
    command has. Options of this command go before ID.
    """
    options, program = _divided(arguments)
    with connect(server) as client:
        script = client.export(job_id, FORMAT)
    if urlsplit(server).hostname in THIS_MACHINE:
        click.echo(
            f"note: the job fetches the plan from {server}, which is this machine's own address; "
            "give --server the one by which nodes reach it.",
            err=True,
        )
    sys.exit(_submit(script, options, program, access(server)[1]))


def _divided(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """What is before `--`, and what is behind."""
    if "--" not in arguments or arguments[-1] == "--":
        raise InputError("PROGRAM", "is missing.", "Write it behind --: … submit ID -- train.py")
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def _submit(script: str, options: Sequence[str], program: Sequence[str], key: str | None) -> int:
    """sbatch's exit status. The key goes into the job's environment, which sbatch takes over."""
    environment = dict(os.environ)
    if key is not None:
        environment["LOADMASTER_API_KEY"] = key
    try:
        done = subprocess.run(
            ["sbatch", *options, "/dev/stdin", *program],
            input=script.encode(),
            env=environment,
            check=False,
        )
    except FileNotFoundError as error:
        raise ClientError(
            "sbatch is not on this machine's PATH. Run this where jobs are submitted, or take the "
            "script of `loadmaster slurm script` there."
        ) from error
    except OSError as error:
        raise ClientError(f"sbatch cannot be run: {error.strerror}.") from error
    return done.returncode
