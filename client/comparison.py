"""The table that compares the schedule with the classic ones, for any width of terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from client.figures import gibibytes, milliseconds, percent
from client.tables import Column, contrasting_table, fits_cell, texts

OURS = "Loadmaster"
MAKESPAN = "Makespan\nms"
SLOWER, OFFLOADS, BUBBLE = "Slower\nby", "Off-\nloads", "Bubble"
LEAST_IMPORTANT = (SLOWER, OFFLOADS, BUBBLE)
"""What a narrow terminal does without, in this order."""


def comparison_table(result: Mapping[str, Any], width: int) -> Table:
    """The table in `width` columns: a narrow terminal gets fewer figures, never cut ones."""
    by_span = result["certificate"]["objective"] == "steady_span"
    last_resort = (MAKESPAN,) if by_span else ()
    return contrasting_table(_columns(result), width, LEAST_IMPORTANT, last_resort)


def has_figures(row: Mapping[str, Any]) -> bool:
    """Whether there is a schedule to show; otherwise the row's reason says why not."""
    return row.get("makespan_ns") is not None


def is_out_of_memory(row: Mapping[str, Any]) -> bool:
    """Whether a row has a schedule that does not fit into the memory."""
    return not row["fits"] and has_figures(row)


def has_several_placements(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether rows need their placement to be told apart."""
    return len({row["placement"] for row in rows}) > 1


def row_name(row: Mapping[str, Any], with_placement: bool) -> str:
    """What a row is called in the table and below it."""
    placement = f" ({row['placement']})" if with_placement else ""
    return f"{row['name']}{placement}{' *' if row.get('hypothetical') else ''}"


def _columns(result: Mapping[str, Any]) -> list[Column]:
    own = _own_row(result)
    rows = [own, *filter(has_figures, result["comparison"])]
    by_span = result["certificate"]["objective"] == "steady_span"
    value = "steady_span_ns" if by_span else "makespan_ns"
    several = has_several_placements(result["comparison"])
    slower = ["" if row is own else _slower(row, value, own[value]) for row in rows]
    peaks = [gibibytes(row.get("peak_memory_bytes")) for row in rows]
    return [
        Column("Schedule", texts(row_name(row, several) for row in rows)),
        _times(MAKESPAN, "makespan_ns", rows),
        *([_times("Span\nms", "steady_span_ns", rows)] if by_span else []),
        Column(SLOWER, texts(slower), True),
        Column(BUBBLE, texts(percent(row.get("bubble_ratio")) for row in rows), True),
        Column("Peak\nGiB", texts(peaks), True),
        Column(OFFLOADS, texts(_dash(row.get("offloads")) for row in rows), True),
        Column("Fits", [fits_cell(row["fits"]) for row in rows]),
    ]


def _times(heading: str, key: str, rows: Sequence[Mapping[str, Any]]) -> Column:
    return Column(heading, texts(milliseconds(row.get(key)) for row in rows), True)


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


def _slower(row: Mapping[str, Any], value: str, own_ns: int) -> str:
    if not row["fits"] or row.get(value) is None or not own_ns:
        return "–"
    return f"{100 * (row[value] - own_ns) / own_ns:+.1f} %"


def _dash(value: Any) -> str:
    return "–" if value is None else str(value)
