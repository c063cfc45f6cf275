"""A step-time estimate: how long a step takes, what of it is lost, and on which rank."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from client.figures import milliseconds, percent
from client.printing import print_lines, print_table, print_title
from client.tables import Column, Row, plain_table, texts

WHY = "Why"


def render_step_time(console: Console, answer: Row) -> None:
    """The rates, the parts of the step from the largest on, and the rank that sets the pace."""
    print_title(console, f"Step time: {milliseconds(answer['step_time_ns'])} ms")
    print_lines(console, [_rates_line(answer)])
    console.print()
    print_table(console, _breakdown_table(answer["breakdown"], console.width))
    pace = f"What sets the pace: {answer['slowest_rank']['why'].rstrip('.')}."
    print_lines(console, [_bound_line(answer), pace], style="dim")


def _rates_line(answer: Row) -> str:
    gpus = answer["gpus"]
    idle = f", {gpus['idle']} idle" if gpus["idle"] else ""
    return (
        f"{answer['tokens_per_s']:,.0f} tokens/s and {answer['samples_per_s']:,.2f} samples/s on "
        f"{gpus['used']} GPUs{idle}; MFU {percent(answer['mfu'])}, HFU {percent(answer['hfu'])}"
    )


def _breakdown_table(parts: list[Row], width: int) -> Table:
    columns = [
        Column("Part", texts(part["what"].replace("_", " ") for part in parts)),
        Column("ms", texts(milliseconds(part["ns"]) for part in parts), True),
        Column("Share", texts(percent(part["share"]) for part in parts), True),
        Column(WHY, texts(part["basis"] for part in parts)),
    ]
    return plain_table(columns, width, (WHY,))


def _bound_line(answer: Row) -> str:
    return f"Not below {milliseconds(answer['bound_ns'])} ms: {answer['bound_basis']}"
