"""The command `diagnose`: why a run or a plan does not go well."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from client.configuration import BODY_KEYS, request_from
from client.connecting import connect
from client.documents import read_document
from client.errors import InputError
from client.figures import milliseconds, percent, size
from client.library.requests import Call
from client.options import json_option, output_option, server_option
from client.output import check_output, write_result
from client.printing import print_json, print_lines, print_title
from client.solving import terminal

DIAGNOSES_PATH = "/v1/diagnoses"
OWN_KEYS = (
    "symptoms",
    "placement",
    "schedule",
    "orders",
    "plan_versions",
    "telemetry",
    "throughput",
    "solve",
)
JOB_KEYS = ("name", "tags", "priority")
MARKS = {"supported": "+", "possible": "?", "ruled_out": "-"}


@click.command("diagnose")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option(
    "--symptom",
    "symptoms",
    multiple=True,
    help="What you see, such as out_of_memory or nan_loss; several if need be. Without any, and "
    "with none in FILE, symptoms are found from the numbers.",
)
@click.option(
    "--result",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The plan that runs: a result of `solve --output`.",
)
@click.option(
    "--telemetry",
    type=click.Path(dir_okay=False, path_type=Path),
    help="What runs report: `iterations` in JSON, or an iteration a line in a .jsonl file.",
)
@click.option("--all", "shows_all", is_flag=True, help="Show causes that are ruled out as well.")
@json_option
@output_option("Write the answer here as JSON.")
@server_option
def diagnose_command(
    file: Path | None,
    symptoms: Sequence[str],
    result: Path | None,
    telemetry: Path | None,
    shows_all: bool,
    as_json: bool,
    output: Path | None,
    server: str,
) -> None:
    """Find likely causes of what goes wrong, what checks each, and what would help.

    FILE (YAML or JSON) is what a plan is asked for with: a problem, or a model, cluster and
    training; and whatever else a diagnosis takes.
    """
    check_output(output)
    body = read_diagnosis_request(file, symptoms, result, telemetry)
    with connect(server) as client:
        answer = client.ask(Call("POST", DIAGNOSES_PATH, body=body))
    if output is not None:
        write_result(output, answer)
    if as_json:
        print_json(answer)
    else:
        render_diagnosis(terminal(), answer, shows_all=shows_all)


def read_diagnosis_request(
    file: Path | None, symptoms: Sequence[str], result: Path | None, telemetry: Path | None
) -> dict[str, Any]:
    """The body that files and options stand for. Raises `InputError`."""
    body: dict[str, Any] = {}
    if file is not None:
        # A file that is solved has fields of its job, which a diagnosis has not.
        body = request_from(read_document(file), (*BODY_KEYS, *OWN_KEYS))
        body = {key: value for key, value in body.items() if key not in JOB_KEYS}
    if symptoms:
        body["symptoms"] = list(symptoms)
    if result is not None:
        body = _with_plan(body, result)
    if telemetry is not None:
        body["telemetry"] = read_telemetry(telemetry)
    return body


def _with_plan(body: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The plan of a result, with the problem that it is of."""
    document = read_document(path)
    for key in ("problem", "schedule"):
        if not isinstance(document.get(key), Mapping):
            raise InputError(
                str(path), f"has no `{key}`.", "Give the result of a pipeline schedule."
            )
    return {**body, "problem": document["problem"], "schedule": document["schedule"]}


def read_telemetry(path: Path) -> list[Any]:
    """The iterations in a file. Raises `InputError`."""
    if path.suffix != ".jsonl":
        document = read_document(path)
        found = document.get("iterations", [document])
        if not isinstance(found, list):
            raise InputError(f"{path}: iterations", "is no list.", "Write it in brackets.")
        return found
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.strip()]
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise InputError(str(path), f"is not JSON line by line: {error}.") from error


def render_diagnosis(console: Console, answer: Mapping[str, Any], *, shows_all: bool) -> None:
    """Symptoms, then causes with what speaks for them, what checks them and what helps."""
    names = [_words(symptom["symptom"]) for symptom in answer["symptoms"]]
    print_title(console, f"Symptoms: {', '.join(names) or 'none found'}")
    for symptom in answer["symptoms"]:
        print_lines(console, map(_evidence_line, symptom["evidence"]), "dim", indent=2)
    for cause in answer["causes"]:
        if cause["state"] != "ruled_out" or shows_all:
            console.print()
            _render_cause(console, cause)
    ruled_out = [_words(own["cause"]) for own in answer["causes"] if own["state"] == "ruled_out"]
    if ruled_out and not shows_all:
        console.print()
        print_lines(console, [f"Ruled out: {', '.join(ruled_out)} (--all shows why)."], "dim")
    print_lines(console, (f"Warning: {warning}" for warning in answer["warnings"]))


def _render_cause(console: Console, cause: Mapping[str, Any]) -> None:
    state = _words(cause["state"])
    print_title(console, f"{MARKS[cause['state']]} {_words(cause['cause'])} ({state})")
    print_lines(console, [cause["summary"]], indent=2)
    print_lines(console, map(_evidence_line, cause["evidence"]), "dim", indent=4)
    print_lines(console, (line for own in cause["remedies"] for line in _remedy(own)), indent=2)
    for check in cause["checks"]:
        print_lines(console, [f"Check: {check['command']}"], indent=2)
        print_lines(console, [check["look_for"]], "dim", indent=4)
    if cause["needs"]:
        print_lines(console, [f"Would decide: {', '.join(cause['needs'])}"], "dim", indent=2)


def _evidence_line(evidence: Mapping[str, Any]) -> str:
    value = _figure(evidence["value"], evidence["unit"])
    limit = ""
    if evidence["threshold"] is not None:
        limit = f" (rule: {_figure(evidence['threshold'], evidence['unit'])})"
    return f"{evidence['speaks']}: {evidence['what']}: {value}{limit}. {evidence['rule']}"


def _remedy(remedy: Mapping[str, Any]) -> Iterator[str]:
    yield f"Remedy: {remedy['detail']}"
    for name, effect in (
        ("Effect", remedy["predicted_effect"]),
        ("Cost", remedy["predicted_cost"]),
    ):
        if effect is not None:
            yield f"  {name}: {_effect(effect)}"
    if remedy["no_prediction"] is not None:
        yield f"  No prediction: {remedy['no_prediction']}"


def _effect(effect: Mapping[str, Any]) -> str:
    after = _figure(effect["after"], effect["unit"])
    if effect["before"] is not None:
        after = f"{_figure(effect['before'], effect['unit'])} to {after}"
    change = "" if effect["change"] is None else f" ({effect['change']:+.1%})"
    quantity = _words(effect["quantity"].removesuffix("_ns").removesuffix("_bytes"))
    return f"{quantity} {after}{change}"


def _figure(value: float | str, unit: str) -> str:
    if isinstance(value, str):
        return value
    if unit == "ns":
        return f"{milliseconds(round(value))} ms"
    if unit == "bytes":
        return size(round(value))
    if unit == "share":
        return percent(value)
    return f"{value:,.4g} {unit.replace('_per_', '/')}" if "per" in unit else f"{value:,.4g}"


def _words(name: str) -> str:
    return name.replace("_", " ")
