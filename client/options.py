"""Options that several commands share, and types of options that click lacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from client.connecting import KEY_FILE
from client.library.requests import DEFAULT_SERVER

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


class FiniteFloatRange(click.FloatRange):
    """A range of numbers without `nan` and `inf`, which JSON cannot carry."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number; fails where it is none or out of the range."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number; give one.", param, ctx)
        return number


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print the answer as JSON instead."
)
_server_option = click.option(
    "--server",
    envvar="LOADMASTER_SERVER",
    default=DEFAULT_SERVER,
    show_default=True,
    show_envvar=True,
    help="Address of the service.",
)
_api_key_file_option = click.option(
    "--api-key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    expose_value=False,
    callback=lambda context, _, file: context.meta.update({KEY_FILE: file}),
    help="File with the API key; without it LOADMASTER_API_KEY has it, if one is needed.",
)
time_limit_option = click.option(
    "--time-limit", type=FiniteFloatRange(min=0, min_open=True), help="Seconds to solve."
)


def server_option(command: CommandT) -> CommandT:
    """`--server` and `--api-key-file`, which `client.connecting.connect` reads."""
    return _server_option(_api_key_file_option(command))


_OUTPUT = click.Path(dir_okay=False, readable=False, path_type=Path)


def output_option(words: str) -> Callable[[CommandT], CommandT]:
    """`--output`; the words say what it does."""
    return click.option("--output", type=_OUTPUT, help=words)


def posting_options(engines: Sequence[str], engine_words: str) -> Callable[[CommandT], CommandT]:
    """FILE and the options of every command that posts a request to be solved."""
    decorators = (
        click.argument("file", type=click.Path(dir_okay=False, path_type=Path)),
        click.option("--wait", is_flag=True, help="Wait for the answer and show it."),
        click.option(
            "--id-only",
            is_flag=True,
            help="Of all that is said only the job's ID goes to standard output: for scripts.",
        ),
        time_limit_option,
        click.option("--engine", type=click.Choice(engines), help=engine_words),
        click.option("--threads", type=click.IntRange(1), help="Threads to solve with."),
        click.option(
            "--mipgap", type=FiniteFloatRange(0, 1), help="Stop within this share of the bound."
        ),
        click.option("--fresh", is_flag=True, help="Solve again even if the answer is stored."),
        output_option("Write the result here as JSON (waits for it)."),
        server_option,
    )

    def decorate(command: CommandT) -> CommandT:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate
