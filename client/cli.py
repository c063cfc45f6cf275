"""The `loadmaster` command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import click
from pydantic import ValidationError
from pydantic_settings import SettingsError

from app.settings import DEFAULT_DATA_DIR, Settings, settings_fault
from client.administration.audit import audit_command
from client.administration.keys import keys_command
from client.administration.tenants import tenants_command
from client.batching import batch_command
from client.calibrating import calibrations_command
from client.connecting import connect
from client.database import database_commands
from client.demo import DEFAULT_DEMO_DIR, run_demo
from client.diagnosing import diagnose_command
from client.errors import EXIT_INPUT, EXIT_INTERRUPTED, ClientError
from client.estimating import estimate_command
from client.exporting import export_command, formats_command
from client.extracting import extract_command
from client.following import runs_command
from client.importing import import_command
from client.listing import job_table
from client.options import output_option, server_option, time_limit_option
from client.output import check_output
from client.posting import plan_command, shard_command, solve_command
from client.profiling import profile_command
from client.progress import describe
from client.report import report_command
from client.slurm import slurm_command
from client.solving import finish, stored_answer, terminal
from embedded.errors import StartError
from embedded.supervisor import DEFAULT_HOST, DEFAULT_PORT, ServeOptions, serve

EXIT_STATUSES = """\b
Exit status:
  0    done
  1    the service refused the request
  2    wrong usage, or a file or option with a fault
  3    no service answers
  4    the problem is infeasible
  5    the job ended without a plan
  130  interrupted
"""


class _Commands(click.Group):
    """Turns every expected error into one line on stderr and its exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ClientError as error:
            _fail(str(error), error.exit_status)
        except StartError as error:
            _fail(str(error), EXIT_INPUT)
        except SettingsError as error:
            _fail(settings_fault(error), EXIT_INPUT)
        except ValidationError as error:
            if error.title != Settings.__name__:
                raise
            _fail(settings_fault(error), EXIT_INPUT)
        except (KeyboardInterrupt, click.Abort):
            sys.exit(EXIT_INTERRUPTED)
        except BrokenPipeError:
            sys.exit(0)


def _fail(message: str, status: int) -> None:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(status)


@click.group(
    cls=_Commands,
    epilog=EXIT_STATUSES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="loadmaster")
def main() -> None:
    """Plans the training of large language models: pipeline schedules, sharding plans, training
    plans, and estimates."""


@main.command("serve")
@click.option("--host", default=DEFAULT_HOST, show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DATA_DIR,
    show_default=True,
    envvar="LOADMASTER_DATA_DIR",
    show_envvar=True,
    help="Where everything is kept: database, logs, socket.",
)
@click.option(
    "--authentication",
    type=click.Choice(["keys", "off"]),
    envvar="LOADMASTER_AUTHENTICATION",
    show_envvar=True,
    help="Whether requests need a key; off by default, if only this machine can connect.",
)
@click.option(
    "--token-file",
    is_flag=True,
    help="Ask for a key, and put one into DATA_DIR/token that only you can read: for a machine "
    "that others log in to.",
)
@click.option(
    "--allow-anyone-on-the-network",
    is_flag=True,
    envvar="LOADMASTER_ALLOW_ANYONE_ON_THE_NETWORK",
    show_envvar=True,
    help="Ask nobody for a key, though other machines can connect.",
)
def serve_command(
    host: str,
    port: int,
    data_dir: Path,
    authentication: Literal["keys", "off"] | None,
    token_file: bool,
    allow_anyone_on_the_network: bool,
) -> None:
    """Run the whole service on this machine until Ctrl-C.

    LOADMASTER_DATABASE_URL and LOADMASTER_BROKER_URL put another database or broker in place of
    the embedded ones.
    """
    serve(
        ServeOptions(
            host=host,
            port=port,
            data_dir=data_dir,
            authentication=authentication,
            token_file=token_file,
            anyone_on_the_network=allow_anyone_on_the_network,
        )
    )


main.add_command(solve_command)
main.add_command(shard_command)
main.add_command(plan_command)
main.add_command(batch_command)
main.add_command(runs_command)
main.add_command(calibrations_command)
main.add_command(estimate_command)
main.add_command(diagnose_command)
main.add_command(report_command)
main.add_command(export_command)
main.add_command(slurm_command)
main.add_command(formats_command)
main.add_command(extract_command)
main.add_command(profile_command)
main.add_command(import_command)
main.add_command(database_commands)
main.add_command(keys_command)
main.add_command(tenants_command)
main.add_command(audit_command)


@main.command("jobs")
@click.option("--state", help="Only jobs in this state.")
@click.option("--tag", help="Only jobs with this tag.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@server_option
def jobs_command(state: str | None, tag: str | None, limit: int, server: str) -> None:
    """List jobs, the newest first."""
    filters = {"state": state, "tag": tag}
    with connect(server) as client:
        given = {key: value for key, value in filters.items() if value is not None}
        jobs = list(client.jobs(limit=limit, **given))
    console = terminal()
    console.print(job_table(jobs, console.width) if jobs else "no jobs", crop=False)


@main.command("show")
@click.argument("job_id", metavar="ID")
@click.option("--log", "show_log", is_flag=True, help="Show the solver's log instead.")
@output_option("Write the result here as JSON.")
@server_option
def show_command(job_id: str, show_log: bool, output: Path | None, server: str) -> None:
    """Show how far a job is, or its answer."""
    check_output(output)
    console = terminal()
    with connect(server) as client:
        if show_log:
            _print_log(lambda offset: client.log(job_id, offset))
            return
        status = client.status(job_id)
        title = f"job {job_id}" + (f" ({status['name']})" if status.get("name") else "")
        console.print(
            f"{title}: {describe(status)}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        if status["finished_at"] is None:
            return
        result = stored_answer(client, job_id, console)
        sys.exit(finish(console, status["kind"], result, output))


@main.command("cancel")
@click.argument("job_id", metavar="ID")
@server_option
def cancel_command(job_id: str, server: str) -> None:
    """Stop a job. The best plan found so far is kept."""
    with connect(server) as client:
        status = client.cancel(job_id)
    stopping = " (its solver is stopping)" if status.get("cancel_requested") else ""
    click.echo(f"job {job_id}: {status['state']}{stopping}")


@main.command("demo")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DEMO_DIR,
    show_default=True,
    help="Where the service keeps its files and the result file goes.",
)
@time_limit_option
def demo_command(data_dir: Path, time_limit: float | None) -> None:
    """Start the whole service, solve a shipped example, show the answer, stop the service."""
    sys.exit(run_demo(terminal(), data_dir, time_limit))


def _print_log(page: Callable[[int], dict[str, Any]]) -> None:
    offset = 0
    while True:
        content = page(offset)
        for line in content["lines"]:
            click.echo(line)
        if not content["lines"] or content["next_offset"] <= offset:
            return
        offset = content["next_offset"]
