"""The command `profile`: measure the stages of a PyTorch pipeline, and write the problem."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from client.errors import InputError
from client.figures import size_unit
from client.options import FiniteFloatRange
from client.output import check_output, write_result
from client.printing import print_lines, print_table, print_title
from client.solving import terminal

if TYPE_CHECKING:
    from client.torch_profile.measured import MeasuredOp
    from client.torch_profile.problem import Profile

SIZES = {
    "F keeps": "activation_bytes",
    "I leaves": "weight_grad_bytes",
    "B takes": "backward_workspace_bytes",
    "offload": "offload_bytes",
}

_OUTPUT = click.Path(dir_okay=False, readable=False, path_type=Path)


@click.command("profile")
@click.argument("target", metavar="FILE.py:FACTORY")
@click.option("--stages", type=click.IntRange(1), required=True, help="Stages, a device each.")
@click.option(
    "--micro-batches",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Of one iteration of the problem; one is measured.",
)
@click.option(
    "--split",
    type=click.Choice(["deferred", "native", "fused"]),
    default="deferred",
    show_default=True,
    help="How the backward is divided into I and W: linear layers defer their weight gradients, "
    "as PyTorch does by itself, or not at all.",
)
@click.option(
    "--repeat", type=click.IntRange(1), default=20, show_default=True, help="Measurements of each."
)
@click.option(
    "--threads",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="CPU threads of PyTorch's operators.",
)
@click.option(
    "--device", help="Such as cuda:0 or cpu. Default: the first GPU that PyTorch can use, or cpu."
)
@click.option(
    "--link-bytes-per-s",
    type=FiniteFloatRange(min=0, min_open=True),
    help="Rate between devices, in place of measured copies.",
)
@click.option("--link-latency-ns", type=click.IntRange(0), default=0, help="Latency of that link.")
@click.option(
    "-o",
    "--output",
    type=_OUTPUT,
    default=Path("problem.json"),
    show_default=True,
    help="Where the problem goes; raw figures go to *.profile.json beside it.",
)
def profile_command(
    target: str,
    stages: int,
    micro_batches: int,
    split: str,
    repeat: int,
    threads: int,
    device: str | None,
    link_bytes_per_s: float | None,
    link_latency_ns: int,
    output: Path,
) -> None:
    """Measure the stages of a PyTorch pipeline on this machine, and write the problem they give.

    FACTORY in FILE.py takes nothing and returns (stages, micro_batch, loss): a list of nn.Module,
    or one nn.Sequential to be cut into parts of as many modules each; a tensor or a tuple of
    tensors for the first stage; and a function from the last stage's output to one number.
    """
    if importlib.util.find_spec("torch") is None:
        raise InputError("profile", "needs PyTorch.", "Run: pip install 'loadmaster[torch]'")
    raw_figures = output.with_name(f"{output.stem}.profile.json")
    for path in (output, raw_figures):
        check_output(path)

    from client.torch_profile.problem import Link
    from client.torch_profile.run import run_profile

    link = None if link_bytes_per_s is None else Link(link_bytes_per_s, link_latency_ns)
    profile = run_profile(
        target,
        stages=stages,
        micro_batches=micro_batches,
        split=split,
        repeat=repeat,
        threads=threads,
        device_name=device,
        link=link,
    )
    write_result(output, {"problem": profile.problem()})
    write_result(raw_figures, profile.sidecar())
    render_profile(terminal(), profile)
    click.echo(f"problem: {output}; raw figures: {raw_figures}", err=True)


def render_profile(console: Console, profile: Profile) -> None:
    """A row per stage: times with half the distance between their quartiles, and sizes."""
    stages = profile.measured.stages
    sizes = {
        heading: [stage.problem_stage(0)[name] for stage in stages]
        for heading, name in SIZES.items()
    }
    unit = size_unit(size for row in sizes.values() for size in row)
    table = Table()
    for heading in (
        "Stage",
        "F ms",
        "B/I ms",
        "W ms",
        *(f"{name}\n{unit.name}" for name in SIZES),
    ):
        table.add_column(heading, justify="right")
    for s, stage in enumerate(stages):
        table.add_row(
            str(s),
            *(_time(op) for op in (stage.forward, stage.backward, stage.weight)),
            *(unit.figure(row[s]) for row in sizes.values()),
        )
    print_title(console, profile.title)
    print_table(console, table)
    print_lines(console, ["Times: median ± half the distance between the quartiles."])
    print_lines(console, profile.assumptions())


def _time(op: MeasuredOp | None) -> str:
    if op is None:
        return "fused"
    low, high = op.time.quartiles_ns
    return f"{op.time.median_ns / 1e6:.2f} ±{(high - low) / 2e6:.2f}"
