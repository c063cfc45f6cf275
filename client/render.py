"""A result in the terminal: the comparison table, the certificate, and why nothing fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any

from rich.console import Console
from rich.text import Text

from client.comparison import (
    comparison_table,
    has_figures,
    has_several_placements,
    is_out_of_memory,
    row_name,
)
from client.figures import GIB, gibibytes, milliseconds, percent
from client.gantt import gantt_chart, legend, without_trailing_blanks
from client.steps import found_line, start_line, step_table

OBJECTIVES = {"makespan": "makespan", "steady_span": "steady span"}


def render_result(console: Console, result: Mapping[str, Any]) -> None:
    """Print a whole result document: plan and proof, or why there is no plan."""
    if "infeasibility" in result:
        render_infeasibility(console, result["infeasibility"])
        return
    problem, schedule = result["problem"], result["schedule"]
    render_comparison(console, result)
    console.print()
    chart = gantt_chart(problem, schedule, console.width)
    console.print(
        chart if console.color_system else without_trailing_blanks(chart),
        crop=False,
    )
    console.print(Text(legend(problem, schedule), style="dim"))
    console.print()
    render_certificate(console, result["certificate"])
    if "robustness" in result:
        console.print(Text(jitter_line(result["robustness"])))
    render_course(console, result["provenance"])


def render_course(console: Console, provenance: Mapping[str, Any]) -> None:
    """How the plan came about: where the solve started, and what each step reached."""
    for line in (start_line(provenance), found_line(provenance)):
        if line is not None:
            console.print(Text(line, style="dim"))
    table = step_table(provenance, console.width)
    if table is not None:
        console.print()
        console.print(table, crop=False, style="dim")


def render_comparison(console: Console, result: Mapping[str, Any]) -> None:
    """The schedule against the classic ones under the same costs and the same limits."""
    console.print(Text(_title(result["problem"]), style="bold"))
    console.print(comparison_table(result, console.width), crop=False)
    for note in _notes(result["problem"], result["comparison"]):
        console.print(Text(note, style="dim"))


def render_certificate(console: Console, certificate: Mapping[str, Any]) -> None:
    """What is proven about the schedule, in words."""
    for line in certificate_lines(certificate):
        console.print(Text(line))


def certificate_lines(certificate: Mapping[str, Any]) -> list[str]:
    """The certificate as sentences: verified by whom, how good, against which bound."""
    objective = OBJECTIVES[certificate["objective"]]
    value = milliseconds(certificate["value_ns"])
    verifier = certificate.get("verifier")
    by = f" by {verifier}" if verifier else ""
    lines = [
        f"Verified{by}: every rule holds at the exact times."
        if certificate["verified"]
        else "NOT verified."
    ]
    bound, name = certificate.get("lower_bound_ns"), certificate.get("bound_name")
    source = f" (bound: {name})" if name else ""
    if certificate["proven_optimal"]:
        lines.append(f"Proven optimal: no schedule has a {objective} below {value} ms{source}.")
    elif bound is None:
        lines.append(f"The {objective} is {value} ms; nothing is proven about how good that is.")
    else:
        lines.append(
            f"The best possible {objective} lies between {milliseconds(bound)} ms{source} "
            f"and the {value} ms found: gap {percent(certificate['gap'], 2)}."
        )
    # A bound of 0 says nothing: what it rests on (a memory limit, say) is not there.
    others = [b for b in certificate.get("bounds", []) if b["name"] != name and b["value_ns"]]
    if others:
        listed = ", ".join(f"{b['name']} {milliseconds(b['value_ns'])} ms" for b in others)
        lines.append(f"Other bounds: {listed}.")
    safe = certificate.get("memory_safe_under_jitter")
    if safe is not None:
        verdict = "Safe under jitter" if safe else "NOT safe under jitter"
        lines.append(f"{verdict}: {certificate['memory_safety']}.")
    return lines


def jitter_line(robustness: Mapping[str, Any]) -> str:
    """How long the iteration takes if every duration varies."""
    return (
        f"With every duration up to {percent(robustness['jitter'], 0)} shorter or longer "
        f"({robustness['samples']} samples): median {milliseconds(robustness['p50_ns'])} ms, "
        f"95 % within {milliseconds(robustness['p95_ns'])} ms."
    )


def render_infeasibility(console: Console, infeasibility: Mapping[str, Any]) -> None:
    """Which device runs short of how much, and what would help."""
    for line in infeasibility_lines(infeasibility):
        console.print(Text(line))


def infeasibility_lines(infeasibility: Mapping[str, Any]) -> list[str]:
    """No schedule fits: the devices, the micro-batches, the bytes and the remedies."""
    devices = infeasibility["devices"]
    micro_batches = _numbers(infeasibility.get("micro_batches") or [])
    lines = [f"Infeasible: no schedule fits on {_plural('device', devices)} {_numbers(devices)}."]
    if infeasibility.get("summary"):
        lines.append(str(infeasibility["summary"]))
    if micro_batches:
        lines.append(f"Micro-batches that do not fit even alone: {micro_batches}.")
    figures = {
        "limit": "limit_bytes",
        "needed without offloading": "bytes",
        "smallest limit that would do": "smallest_limit_bytes",
    }
    for index, device in enumerate(devices):
        sizes = [
            f"{words} {_exact_size(values[index])}"
            for words, key in figures.items()
            if (values := infeasibility.get(key))
        ]
        lines.append(f"  device {device}: {'; '.join(sizes)}")
    lines += [
        f"  host {host['host']}: limit {_exact_size(host['limit_bytes'])}; "
        f"smallest limit that would do {_exact_size(host['smallest_limit_bytes'])}"
        for host in infeasibility.get("hosts", [])
    ]
    if infeasibility.get("remedies"):
        lines.append("What would help:")
        lines += [f"  {_remedy(remedy)}" for remedy in infeasibility["remedies"]]
    return lines


def _title(problem: Mapping[str, Any]) -> str:
    size = (
        f"{len(problem['devices'])} devices, {len(problem['stages'])} stages, "
        f"{problem['micro_batches']} micro-batches"
    )
    return f"{problem['name']}: {size}" if problem.get("name") else size


def _notes(problem: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    notes = []
    if any(row.get("hypothetical") for row in filter(has_figures, rows)):
        notes.append("* needs another placement of the stages: its stages are split equally")
    limits = [device.get("activation_memory_bytes") for device in problem["devices"]]
    known = [limit for limit in limits if limit is not None]
    if any(map(is_out_of_memory, rows)) and known:
        least, most = gibibytes([min(known)]), gibibytes([max(known)])
        span = least if least == most else f"{least} to {most}"
        notes.append(f"OOM = out of memory: {_room(span, rows)}")
    return notes + _reasons([row for row in rows if not has_figures(row)], rows)


def _room(span: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """How much there is for activations, and of which placement that is where rows were made for
    several; hypothetical ones have the limits of the problem that they stand beside."""
    left = f"{span} GiB of a device are left for activations"
    if not has_several_placements([row for row in rows if not row.get("hypothetical")]):
        return left
    return f"in the placement of the plan, {left}; other placements leave other amounts"


def _reasons(without: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why some rows have no schedule, one line for each reason.

    Placements are named only where the same schedule has one in another placement.
    """
    names_of: dict[str, list[str]] = {}
    for row in without:
        reason = row.get("reason") or "no schedule"
        alike = [other for other in rows if other["name"] == row["name"]]
        differs = any(other.get("reason") != row.get("reason") for other in alike)
        name = row_name(row, with_placement=True) if differs else row["name"]
        names = names_of.setdefault(reason, [])
        if name not in names:
            names.append(name)
    return [f"{', '.join(names)}: {reason}" for reason, names in names_of.items()]


def _numbers(numbers: Iterable[int]) -> str:
    listed = [str(number) for number in numbers]
    if len(listed) > 12:
        listed = [*listed[:10], "…", listed[-1]]
    return ", ".join(listed)


def _plural(noun: str, entries: Sized) -> str:
    return noun if len(entries) == 1 else f"{noun}s"


def _exact_size(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.3f} GiB ({size_bytes} bytes)"


def _remedy(remedy: Mapping[str, Any]) -> str:
    verdict = {True: "yes", False: "no", None: "cannot be told from here"}[remedy["fits"]]
    return f"{remedy['remedy']}: {verdict}. {remedy['detail']}"
