"""The command `estimate`: closed formulas, answered at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from client.configuration import FURTHER_KEYS, read_estimate_request
from client.connecting import connect
from client.errors import EXIT_INFEASIBLE
from client.estimates.checkpoints import render_checkpoints
from client.estimates.communication import render_communication
from client.estimates.memory import render_memory
from client.estimates.offload import render_offload
from client.estimates.recomputation import render_recomputation
from client.estimates.scaling import render_scaling
from client.estimates.step_time import render_step_time
from client.options import output_option, server_option
from client.output import check_output, write_result
from client.printing import print_json, print_lines
from client.solving import terminal

RENDERERS: Mapping[str, Callable[[Console, Mapping[str, Any]], None]] = {
    "memory": render_memory,
    "step-time": render_step_time,
    "recomputation": render_recomputation,
    "scaling": render_scaling,
    "offload": render_offload,
    "communication": render_communication,
    "checkpoints": render_checkpoints,
}
DEFAULT_NAMES = "memory,step-time"


def _names(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Each of the names that commas separate, once; refuses unknown ones."""
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    for name in names:
        if name not in FURTHER_KEYS:
            raise click.BadParameter(f"{name!r} is none of {', '.join(FURTHER_KEYS)}.")
    return names


@click.command("estimate")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--of",
    "names",
    callback=_names,
    default=DEFAULT_NAMES,
    show_default=True,
    metavar="NAME,…",
    help=f"What to estimate, of {', '.join(FURTHER_KEYS)}.",
)
@click.option("--assumptions", is_flag=True, help="Show what the figures rest on.")
@click.option("--json", "as_json", is_flag=True, help="Print the answers as JSON instead.")
@output_option("Write the answers here as JSON.")
@server_option
def estimate_command(
    file: Path,
    names: tuple[str, ...],
    assumptions: bool,
    as_json: bool,
    output: Path | None,
    server: str,
) -> None:
    """Estimate memory, step time and the like of the training in FILE (YAML or JSON), at once.

    The exit status is 4 where the memory estimate says that it does not fit.
    """
    check_output(output)
    body = read_estimate_request(file)
    with connect(server) as client:
        answers = {name: client.estimate(name, body_of(name, body)) for name in names}
    if output is not None:
        write_result(output, answers)
    if as_json:
        print_json(answers)
    else:
        render_estimates(terminal(), answers, with_assumptions=assumptions)
    fits = answers.get("memory", {}).get("fits", True)
    sys.exit(0 if fits else EXIT_INFEASIBLE)


def body_of(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a request that an estimate takes."""
    keys = ("model", "cluster", "training", *FURTHER_KEYS[name])
    return {key: body[key] for key in keys if key in body}


def render_estimates(
    console: Console, answers: Mapping[str, Mapping[str, Any]], *, with_assumptions: bool
) -> None:
    """Print the answers, what to be wary of, and what they rest on if that is asked for."""
    for number, (name, answer) in enumerate(answers.items()):
        if number:
            console.print()
        RENDERERS[name](console, answer)
        print_lines(console, (f"Warning: {warning}" for warning in answer["warnings"]))
    # Estimates of one training share most of what they assume.
    notes = dict.fromkeys(
        f"{note['what']}: {note['value']} ({note['basis'].rstrip('.')})"
        for answer in answers.values()
        for note in answer["assumptions"]
    )
    console.print()
    if with_assumptions:
        print_lines(console, ["Assumptions", *(f"  {note}" for note in notes)])
    else:
        print_lines(console, [f"{len(notes)} assumptions: --assumptions shows them."], style="dim")
