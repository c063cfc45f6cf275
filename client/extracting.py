"""`loadmaster extract`: from a model's code to the graph of a request for a sharding plan."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from client.errors import InputError
from client.factories import TARGET_REMEDY, called, load_factory
from client.output import check_output, write_text

if TYPE_CHECKING:
    from client.operator_graph.extraction import Extraction

INSTALL = "Install it: pip install 'loadmaster[torch]'."
WITHOUT_DATA = "It is called with fake tensors: shapes and dtypes, no data to read or load."
DTYPES = ("fp32", "bf16", "fp16")

_OUTPUT = click.Path(dir_okay=False, readable=False, path_type=Path)


@click.command("extract")
@click.argument("target", metavar="[FILE.py:FACTORY]", required=False)
@click.option(
    "--hf",
    "config",
    type=click.Path(path_type=Path),
    help="A config.json of Hugging Face transformers, or its folder, instead of a factory.",
)
@click.option("--batch", type=click.IntRange(1), default=8, show_default=True, help="With --hf.")
@click.option(
    "--sequence", type=click.IntRange(1), default=512, show_default=True, help="With --hf."
)
@click.option(
    "--dtype",
    type=click.Choice(DTYPES),
    help="The default dtype while the model is made; bf16 with --hf.",
)
@click.option("--apart", is_flag=True, help="All layers' operators, even where layers are alike.")
@click.option("-o", "--output", type=_OUTPUT, help="Write the graph here instead of printing it.")
@click.option("--report", type=_OUTPUT, help="Write FLOPs and kept bytes per operator here.")
def extract_command(
    target: str | None,
    config: Path | None,
    batch: int,
    sequence: int,
    dtype: str | None,
    apart: bool,
    output: Path | None,
    report: Path | None,
) -> None:
    """Write the operator graph of a PyTorch model, to be posted with `loadmaster shard`.

    FACTORY takes no arguments and returns (module, example inputs), the inputs as a tuple or by
    name. It is called with tensors that have no data, so that a model of any size needs no memory.
    """
    check_output(output)
    check_output(report)
    if (target is None) == (config is None):
        raise InputError("FACTORY", "or --hf has to be given, and not both.", TARGET_REMEDY)
    _require_torch()
    if config is not None:
        found = _from_config(config, batch, sequence, dtype or "bf16", not apart)
    else:
        assert target is not None
        found = _from_factory(target, dtype, not apart)
    _say(found.report)
    if report is not None:
        write_text(report, json.dumps(found.report, indent=1) + "\n")
    text = json.dumps(found.request(), indent=1) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    write_text(output, text)
    click.echo(f"graph: {output}; plan it: loadmaster shard {output} --devices 8 --wait", err=True)


def _require_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise InputError("extract", "needs PyTorch, which is not installed.", INSTALL)


def _from_config(path: Path, batch: int, sequence: int, dtype: str, fold: bool) -> Extraction:
    from client.torch_extract.extraction import extract
    from client.torch_extract.huggingface import DTYPES, build_model, read_config

    model, inputs = build_model(
        read_config(path), batch=batch, sequence=sequence, dtype=DTYPES[dtype]
    )
    return extract(model, inputs, fold=fold)


def _from_factory(target: str, dtype: str | None, fold: bool) -> Extraction:
    from client.torch_extract.extraction import extract
    from client.torch_extract.fakes import build_fake
    from client.torch_extract.huggingface import DTYPES

    factory = load_factory(target)

    made = build_fake(
        lambda: called(target, factory, WITHOUT_DATA), dtype=DTYPES[dtype] if dtype else None
    )
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], tuple | Mapping)):
        raise InputError(
            target,
            f"returned {type(made).__name__}.",
            "Return (module, example inputs), the inputs as a tuple or a dict.",
        )
    return extract(made[0], made[1], fold=fold)


def _say(report: Mapping[str, Any]) -> None:
    """The sums and the notes, on stderr so that the graph can be piped."""
    totals, layers = report["totals"], report["layers"]
    repeated = f", {layers['count']} layers {layers['module']} alike" if layers else ""
    click.echo(
        f"{report['name']}: {totals['operators']} operators{repeated}; "
        f"{totals['parameters']:,} parameters; "
        f"{totals['forward_flops'] / 1e12:.3f} TFLOP forward; "
        f"{totals['saved_bytes'] / 2**30:.2f} GiB kept for the backward",
        err=True,
    )
    for note in report["notes"]:
        click.echo(f"note: {note}", err=True)
