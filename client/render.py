"""A result in the terminal: the comparison table, the certificate, and why nothing fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from client.gantt import gantt_chart, legend

GIB = 2**30
NS_PER_MS = 1e6
OURS = "Loadmaster"
OBJECTIVES = {"makespan": "makespan", "steady_span": "steady span"}


def render_result(console: Console, result: Mapping[str, Any]) -> None:
    """Print a whole result document: plan and proof, or why there is no plan."""
    if "infeasibility" in result:
        render_infeasibility(console, result["infeasibility"])
        return
    problem, schedule = result["problem"], result["schedule"]
    render_comparison(console, result)
    console.print()
    console.print(gantt_chart(problem, schedule, console.width), crop=False)
    console.print(Text(legend(problem, schedule), style="dim"))
    console.print()
    render_certificate(console, result["certificate"])


def render_comparison(console: Console, result: Mapping[str, Any]) -> None:
    """The schedule against the classic ones under the same costs and the same limits."""
    own = _own_row(result)
    by_span = result["certificate"]["objective"] == "steady_span"
    value = "steady_span_ns" if by_span else "makespan_ns"
    rows = [own, *result["comparison"]]
    several = len({row["placement"] for row in result["comparison"]}) > 1
    console.print(Text(_title(result["problem"]), style="bold"))
    table = Table()
    # A narrow terminal may break names, never numbers.
    table.add_column("Schedule", overflow="fold")
    headings = ["Makespan\nms", "Slower\nby", "Bubble", "Peak\nGiB", "Off-\nloads"]
    if by_span:
        headings.insert(1, "Span\nms")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Fits", no_wrap=True)
    for row in rows:
        cells: list[str | Text] = [_row_name(row, several), milliseconds(row.get("makespan_ns"))]
        if by_span:
            cells.append(milliseconds(row.get("steady_span_ns")))
        cells += [
            "" if row is own else _slower(row, value, own[value]),
            percent(row.get("bubble_ratio")),
            gibibytes(row.get("peak_memory_bytes")),
            _dash(row.get("offloads")),
            _fits(row),
        ]
        table.add_row(*cells, style="bold" if row is own else "", end_section=row is own)
    console.print(table)
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
    others = [b for b in certificate.get("bounds", []) if b["name"] != name]
    if others:
        listed = ", ".join(f"{b['name']} {milliseconds(b['value_ns'])} ms" for b in others)
        lines.append(f"Other bounds: {listed}.")
    return lines


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


def milliseconds(value_ns: int | None) -> str:
    """Milliseconds with three decimals, or a dash."""
    return "–" if value_ns is None else f"{value_ns / NS_PER_MS:.3f}"


def percent(ratio: float | None, digits: int = 1) -> str:
    """A share as a percentage, or a dash."""
    return "–" if ratio is None else f"{100 * ratio:.{digits}f} %"


def gibibytes(peaks: Iterable[int] | None) -> str:
    """The largest of several sizes in GiB, or a dash."""
    largest = max(peaks, default=None) if peaks is not None else None
    return "–" if largest is None else f"{largest / GIB:.2f}"


def _own_row(result: Mapping[str, Any]) -> dict[str, Any]:
    problem, schedule = result["problem"], result["schedule"]
    compute = [op for op in schedule["ops"] if op["op"] in ("F", "B", "W")]
    busy_ns = sum(op["end_ns"] - op["start_ns"] for op in compute)
    devices = len({problem["stages"][op["stage"]]["device"] for op in compute})
    makespan_ns = schedule["makespan_ns"]
    return {
        "name": OURS,
        "placement": result["provenance"]["placement"],
        "makespan_ns": makespan_ns,
        "steady_span_ns": schedule["steady_span_ns"],
        "bubble_ratio": 1 - busy_ns / (devices * makespan_ns) if makespan_ns else 0.0,
        "peak_memory_bytes": schedule["peak_memory_bytes"],
        "offloads": sum(op["op"] == "O" for op in schedule["ops"]),
        "fits": True,
    }


def _title(problem: Mapping[str, Any]) -> str:
    size = (
        f"{len(problem['devices'])} devices, {len(problem['stages'])} stages, "
        f"{problem['micro_batches']} micro-batches"
    )
    return f"{problem['name']}: {size}" if problem.get("name") else size


def _row_name(row: Mapping[str, Any], with_placement: bool) -> str:
    placement = f" ({row['placement']})" if with_placement else ""
    return f"{row['name']}{placement}{' *' if row.get('hypothetical') else ''}"


def _slower(row: Mapping[str, Any], value: str, own_ns: int) -> str:
    if not row["fits"] or row.get(value) is None or not own_ns:
        return "–"
    return f"{100 * (row[value] - own_ns) / own_ns:+.1f} %"


def _dash(value: Any) -> str:
    return "–" if value is None else str(value)


def _fits(row: Mapping[str, Any]) -> Text:
    if row["fits"]:
        return Text("yes", style="green")
    return Text("OOM" if _is_out_of_memory(row) else "–", style="red")


def _is_out_of_memory(row: Mapping[str, Any]) -> bool:
    return not row["fits"] and row.get("makespan_ns") is not None


def _notes(problem: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    notes = []
    if any(row.get("hypothetical") for row in rows):
        notes.append("* needs another placement of the stages: its stages are split equally")
    limits = [device.get("activation_memory_bytes") for device in problem["devices"]]
    known = [limit for limit in limits if limit is not None]
    if any(map(_is_out_of_memory, rows)) and known:
        least, most = gibibytes([min(known)]), gibibytes([max(known)])
        span = least if least == most else f"{least} to {most}"
        notes.append(f"OOM = out of memory: {span} GiB of a device are left for activations")
    notes += [
        f"{row['name']}: {row['reason']}"
        for row in rows
        if row.get("reason") and not row["fits"] and not _is_out_of_memory(row)
    ]
    return notes


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
