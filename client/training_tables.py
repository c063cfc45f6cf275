"""The tables of a training plan: the ranked plans, and the front of speed, headroom and GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from client.figures import milliseconds, percent
from client.tables import Column, Row, headings, plain_table, size_columns, texts

DEGREES = {
    "TP": "tensor_parallel",
    "PP": "pipeline_parallel",
    "DP": "data_parallel",
    "CP": "context_parallel",
    "EP": "expert_parallel",
}
SELDOM = ("CP", "EP")
"""Degrees whose column is there only where some plan has more than 1."""
BATCH, CHUNKS, RECOMPUTED, OFFLOAD = "Micro-\nbatch", "Chunks", "Recom-\nputed", "Off-\nload"
STEP, SCHEDULE, MFU = "Step\nms", "Schedule\nms", "MFU"
LEAST_IMPORTANT = ("Left", MFU, "Tokens/s", OFFLOAD, BATCH, RECOMPUTED, CHUNKS, SCHEDULE)
"""What a narrow terminal does without, in this order."""


def plan_table(plans: Sequence[Row], best_rank: int, width: int) -> Table:
    """The plans in their order; the best one says so, which a schedule may have made of another
    than the first."""
    marks = ["best" if plan["rank"] == best_rank else "" for plan in plans]
    schedules = [(plan["schedule"] or {}).get("makespan_ns") for plan in plans]
    columns = [
        Column("Plan", texts(str(plan["rank"]) for plan in plans), True),
        *_columns(plans),
    ]
    if any(schedules):
        place = next(n for n, column in enumerate(columns) if column.heading == STEP)
        columns.insert(place + 1, Column(SCHEDULE, texts(map(milliseconds, schedules)), True))
    columns.append(Column("", texts(marks)))
    return plain_table(columns, width, headings(columns, *LEAST_IMPORTANT))


def front_table(points: Sequence[Row], width: int) -> Table:
    """Plans of which no other is faster, smaller and on fewer GPUs."""
    columns = _columns(points)
    return plain_table(columns, width, headings(columns, *LEAST_IMPORTANT))


def _columns(plans: Sequence[Row]) -> list[Column]:
    return [
        _numbers("GPUs", plans, "devices"),
        *(
            _numbers(heading, plans, key)
            for heading, key in DEGREES.items()
            if heading not in SELDOM or any(plan[key] > 1 for plan in plans)
        ),
        _numbers(BATCH, plans, "micro_batch_size"),
        _numbers(CHUNKS, plans, "interleaving"),
        _numbers("ZeRO", plans, "zero_stage"),
        Column(RECOMPUTED, texts(plan["recomputation"] for plan in plans)),
        Column(OFFLOAD, texts("yes" if plan["offload"] else "no" for plan in plans)),
        Column(STEP, texts(milliseconds(plan["step_time_ns"]) for plan in plans), True),
        Column("Tokens/s", texts(f"{plan['tokens_per_s']:,.0f}" for plan in plans), True),
        Column(MFU, texts(percent(plan["mfu"]) for plan in plans), True),
        *size_columns(
            {
                "Peak": [plan["peak_bytes"] for plan in plans],
                "Left": [plan["headroom_bytes"] for plan in plans],
            }
        ),
    ]


def _numbers(heading: str, plans: Sequence[Row], key: str) -> Column:
    return Column(heading, texts(str(plan[key]) for plan in plans), True)
