"""The tables of a sharding plan: its operators, its rivals, and other points of the trade-off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.table import Table

from client.tables import (
    Column,
    Row,
    contrasting_table,
    fits_cell,
    headings,
    plain_table,
    size_columns,
    texts,
)

OURS = "Loadmaster"
ROLES = ("data", "row", "column")
MEMORY, PEAK, REDUNDANT, SENT = "Memory", "Peak", "Redundant", "Sent"
RESHARDED = "Resharded"
KIND, LAYERS, OBJECTIVE, SPEED = "Kind", "Layers", "Objective", "Throughput\nto Megatron"


def strategy_words(operator: Row) -> str:
    """How an operator is split: "data 2, column 2"; "whole" where it is not."""
    parts = [f"{role} {operator[role]}" for role in ROLES if operator[role] > 1]
    if "sp" in operator["strategy"].split("-"):
        parts.append("sequence")
    if operator["spare"] > 1:
        parts.append(f"repeated on {operator['spare']}")
    return ", ".join(parts) or "whole"


def is_from_layer_to_layer(resharding: Row) -> bool:
    """Whether a row of the plan's `resharding` is part of an operator's own communication: what
    each of identical layers hands to the same operator of the next."""
    return resharding.get("counted_as") == "communication"


def operator_table(operators: Sequence[Row], resharding: Sequence[Row], width: int) -> Table:
    """Each operator's strategy, and what one device holds and sends for it in all layers.

    What is resharded, if anything, stands at the operator that reads it.
    """
    sizes = {
        MEMORY: [row["memory_bytes"] for row in operators],
        REDUNDANT: [row["redundant_bytes"] for row in operators],
        SENT: [row["communication_bytes"] for row in operators],
    }
    between = [row for row in resharding if not is_from_layer_to_layer(row)]
    if between:
        arriving: Counter[str] = Counter()
        for row in between:
            arriving[row["to"]] += row["bytes"]
        sizes[RESHARDED] = [arriving[row["name"]] for row in operators]
    layers = Column(LAYERS, texts(str(operator["layers"]) for operator in operators), True)
    is_folded = any(operator["layers"] > 1 for operator in operators)
    columns = [
        Column("Operator", texts(operator["name"] for operator in operators)),
        Column(KIND, texts(operator["kind"] for operator in operators)),
        *([layers] if is_folded else []),
        Column("Strategy", texts(map(strategy_words, operators))),
        *size_columns(sizes),
    ]
    dispensable = headings(columns, KIND, RESHARDED, SENT, REDUNDANT, LAYERS)
    return plain_table(columns, width, dispensable)


def baseline_table(plan: Row, baselines: Sequence[Row], width: int) -> Table:
    """The plan against those baselines that are applicable, on the same cost model.

    What is resharded counts as sent.
    """
    rows = [{**plan, "name": OURS, "fits": True}, *filter(is_applicable, baselines)]
    figures = {
        MEMORY: [row["memory_bytes"] for row in rows],
        PEAK: [row["predicted_peak_bytes"] for row in rows],
        REDUNDANT: [row["redundant_bytes"] for row in rows],
        SENT: [row["communication_bytes"] + row["resharding_bytes"] for row in rows],
        OBJECTIVE: [row["objective"] for row in rows],
    }
    columns = [
        Column("Plan", texts(row["name"] for row in rows)),
        *size_columns(figures),
        Column(SPEED, texts(_ratio(row["relative_throughput"]) for row in rows), True),
        Column("Fits", [fits_cell(row["fits"]) for row in rows]),
    ]
    dispensable, last = (OBJECTIVE, SPEED, SENT), (REDUNDANT,)
    return contrasting_table(
        columns, width, headings(columns, *dispensable), headings(columns, *last)
    )


def trade_off_table(points: Sequence[Row], plan: Row, width: int) -> Table:
    """Other plans of the same graph: those of a front, or of several weights of communication.

    The one that is the plan says so; a weight for which there is no plan has dashes.
    """
    figures = {
        REDUNDANT: [point.get("redundant_bytes") for point in points],
        SENT: [point.get("communication_bytes") for point in points],
        MEMORY: [point.get("memory_bytes") for point in points],
    }
    alphas = Column("Alpha", texts(f"{point.get('alpha', 0):g}" for point in points), True)
    marks = ["this plan" if point.get("choice") == plan["choice"] else "" for point in points]
    columns = [
        *([alphas] if "alpha" in points[0] else []),
        *size_columns(figures),
        Column("", texts(marks)),
    ]
    return plain_table(columns, width, ())


def is_applicable(baseline: Row) -> bool:
    """Whether a baseline has a plan of this graph at all; otherwise its reason says why not."""
    return bool(baseline["applicable"])


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
