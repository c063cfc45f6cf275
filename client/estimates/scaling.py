"""A scaling estimate: throughput by degree of each kind of parallelism, the rule of thumb aside."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from client.figures import milliseconds, percent
from client.printing import print_lines, print_table, print_title
from client.tables import Column, Row, fits_cell, headings, plain_table, size_columns, texts

BATCH, COMMUNICATION, BUBBLE = "Batch", "Sending", "Bubble"
PEAK, SPEEDUP, EFFICIENCY = "Peak", "Speedup", "Efficiency"
CURVES = {"strong_scaling": "the global batch kept", "weak_scaling": "micro-batches kept"}


def render_scaling(console: Console, answer: Row) -> None:
    """A table per curve, each with where throughput is best and what the rule of thumb says."""
    blocks = [
        (kind, found, curve)
        for kind, found in answer["kinds"].items()
        for curve in CURVES
        if curve in found
    ]
    for number, (kind, found, curve) in enumerate(blocks):
        if number:
            console.print()
        print_title(console, f"Scaling of {kind} parallelism, {CURVES[curve]}")
        points = found[curve]["points"]
        if points:
            print_table(console, _table(points, console.width))
            print_lines(console, [_best_line(found[curve])])
        if curve == "strong_scaling":
            print_lines(console, [_rule_line(found["rule_of_thumb"])], style="dim")
        print_lines(console, _left_out(found[curve]["refused"]), style="dim")


def _table(points: Sequence[Row], width: int) -> Table:
    columns = [
        Column("Degree", texts(str(point["degree"]) for point in points), True),
        Column("GPUs", texts(str(point["gpus"]) for point in points), True),
        Column(BATCH, texts(str(point["global_batch_size"]) for point in points), True),
        Column("Step\nms", texts(milliseconds(point["step_time_ns"]) for point in points), True),
        Column("Tokens/s", texts(f"{point['tokens_per_s']:,.0f}" for point in points), True),
        Column(SPEEDUP, texts(f"{point['speedup']:.2f}" for point in points), True),
        Column(EFFICIENCY, texts(percent(point["efficiency"]) for point in points), True),
        Column(
            COMMUNICATION, texts(percent(point["communication_share"]) for point in points), True
        ),
        Column(BUBBLE, texts(percent(point["bubble_share"]) for point in points), True),
        *size_columns({PEAK: [point["peak_bytes"] for point in points]}),
        Column("Fits", [fits_cell(point["fits"]) for point in points]),
    ]
    names = (BATCH, SPEEDUP, COMMUNICATION, BUBBLE, PEAK)
    return plain_table(columns, width, headings(columns, *names))


def _best_line(curve: Row) -> str:
    best, fitting = curve["best_degree"], curve["best_degree_that_fits"]
    line = f"Most tokens/s at degree {best} ({curve['best_gpus']} GPUs)"
    if fitting is None:
        return f"{line}; no degree fits into memory."
    return f"{line}." if fitting == best else f"{line}; of what fits, at degree {fitting}."


def _rule_line(rule: Row) -> str:
    low, high = rule["alpha"]
    formula = f"Rule of thumb T_comp / (T_comm x {low:g} to {high:g})"
    if rule["devices"] is None:
        return f"{formula}: no value. {rule['reason']}"
    least, most = rule["devices"]
    return f"{formula}: {least:,.0f} to {most:,.0f} devices."


def _left_out(refused: Sequence[Row]) -> list[str]:
    if not refused:
        return []
    degrees = ", ".join(str(entry["degree"]) for entry in refused)
    return [f"Degrees that do not suit the training: {degrees}. --json says why."]
