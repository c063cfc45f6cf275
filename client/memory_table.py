"""The parts of each pipeline rank's memory: of an estimate, and of a training plan."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from client.tables import Column, Row, fits_cell, headings, plain_table, size_columns, texts

PARTS = {
    "Weights": ("parameters_bytes", "gathered_parameters_bytes"),
    "Grads": ("gradients_bytes",),
    "Optimizer": ("optimizer_bytes",),
    "Activations": ("activations_bytes", "embedding_activations_bytes"),
    "Buffers": ("communication_buffers_bytes",),
    "Reserve": ("reserved_bytes",),
}
AT_WORK, AWAY, TOTAL, LEFT = "At work", "Offloaded", "Total", "Left"
IN_FLIGHT = "In\nflight"
ALIKE = ("layers", "micro_batches_in_flight", "optimizer_bytes", "total_bytes")
"""Where neighbouring ranks are equal in these, they are one row."""


def rank_memory_table(ranks: Sequence[Row], width: int) -> Table:
    """One row per rank or run of equal ranks; a narrow terminal gets fewer parts.

    What is at work for a moment, logits or one layer's backward, is what the other parts leave of
    the total.
    """
    names, rows = zip(*merged_ranks(ranks, ALIKE), strict=True)
    figures = {
        heading: [sum(row[key] for key in keys) for row in rows] for heading, keys in PARTS.items()
    }
    away = [row.get("offloaded_bytes", 0) for row in rows]
    totals = [row["total_bytes"] for row in rows]
    parts = [sum(own) for own in zip(*figures.values(), strict=True)]
    figures[AT_WORK] = [
        total + gone - own for total, gone, own in zip(totals, away, parts, strict=True)
    ]
    if any(away):
        figures[AWAY] = away
    figures[TOTAL] = totals
    figures[LEFT] = [row["headroom_bytes"] for row in rows]
    columns = [
        Column("Rank", texts(names), True),
        Column("Layers", texts(str(row["layers"]) for row in rows), True),
        Column(IN_FLIGHT, texts(f"{row['micro_batches_in_flight']:g}" for row in rows), True),
        *size_columns(figures),
        Column("Fits", [fits_cell(row["headroom_bytes"] >= 0) for row in rows]),
    ]
    least_important = headings(columns, IN_FLIGHT, "Reserve", "Buffers", "Layers", AT_WORK, AWAY)
    return plain_table(columns, width, least_important)


def merged_ranks(rows: Sequence[Row], keys: Sequence[str]) -> list[tuple[str, Row]]:
    """Neighbouring ranks that are alike in these keys as one row, named `1-6`."""
    merged: list[tuple[str, Row]] = []
    for row in rows:
        name = str(row["rank"])
        if merged and all(merged[-1][1][key] == row[key] for key in keys):
            first = merged[-1][0].partition("-")[0]
            merged[-1] = (f"{first}-{name}", merged[-1][1])
        else:
            merged.append((name, row))
    return merged
