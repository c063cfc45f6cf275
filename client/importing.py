"""The command `import`: from files of other tools to a request."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from client.errors import InputError
from client.importers.hugging_face import from_hf_config
from client.importers.imported import Imported
from client.importers.kineto import from_kineto
from client.importers.kubernetes_nodes import from_kubernetes_nodes
from client.importers.megatron_arguments import from_megatron_args
from client.importers.megatron_timers import from_megatron_timers
from client.importers.slurm_topology import from_slurm_topology
from client.output import check_output, write_result
from client.printing import print_json

_OUTPUT = click.Path(dir_okay=False, readable=False, path_type=Path)
_FILE = click.Path(dir_okay=False, path_type=Path)
KINDS = (
    "hf-config",
    "megatron-args",
    "kineto",
    "megatron-timers",
    "slurm-topology",
    "kubernetes-nodes",
)


@click.command("import")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=_FILE)
@click.option("-o", "--output", type=_OUTPUT, help="Write it here instead of printing it.")
@click.option("--rack-label", metavar="LABEL", help="Of kubernetes-nodes: the label with the rack.")
def import_command(
    kind: str, files: Sequence[Path], output: Path | None, rack_label: str | None
) -> None:
    """Make a request, or a part of one, from a file of another tool.

    \b
    hf-config         config.json of Hugging Face: model and precision
    megatron-args     arguments of Megatron-LM, or a script with them: model and training
    kineto            traces of PyTorch's profiler, one per rank: a measured problem
    megatron-timers   log of Megatron-LM with --timing-log-level 2: a measured problem or profile
    slurm-topology    topology.conf, or scontrol show topology: nodes and racks of the cluster
    kubernetes-nodes  kubectl get nodes -o json: the cluster

    What was assumed and what is missing is said on stderr.
    """
    check_output(output)
    if kind != "kineto" and len(files) > 1:
        raise InputError("FILE", f"{kind} takes one file.", "Give traces of several ranks only.")
    if kind != "kubernetes-nodes" and rack_label is not None:
        raise InputError("--rack-label", f"is not for {kind}.", "Leave it out.")
    imported = IMPORTERS[kind](files, rack_label)
    for note in imported.notes:
        click.echo(f"note: {note}", err=True)
    if output is None:
        print_json(imported.document)
        return
    write_result(output, imported.document)
    click.echo(f"imported file: {output}", err=True)


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        return content.decode()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(str(path), f"cannot be read: {reason}.") from error
    except (EOFError, UnicodeDecodeError) as error:
        raise InputError(str(path), "is not UTF-8 text.") from error


def _object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), f"is not valid JSON: {error}.") from error
    if not isinstance(content, dict):
        raise InputError(str(path), "holds no JSON object.", "Give the file of that tool.")
    return content


IMPORTERS: Mapping[str, Callable[[Sequence[Path], str | None], Imported]] = {
    "hf-config": lambda files, _: from_hf_config(_object(files[0])),
    "megatron-args": lambda files, _: from_megatron_args(_text(files[0])),
    "kineto": lambda files, _: from_kineto([_object(file) for file in files]),
    "megatron-timers": lambda files, _: from_megatron_timers(_text(files[0])),
    "slurm-topology": lambda files, _: from_slurm_topology(_text(files[0])),
    "kubernetes-nodes": lambda files, rack: from_kubernetes_nodes(_object(files[0]), rack),
}
