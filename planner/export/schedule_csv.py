"""A pipeline schedule as a table: one row per operation, in the order of their starts."""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter

from planner.export.csv_text import EXTENSION, MEDIA_TYPE, csv_text
from planner.export.format import Document, Format, Source

COLUMNS = ("device", "op", "stage", "micro_batch", "start_ns", "end_ns", "duration_ns")


def with_schedule(answer: Document) -> Document | None:
    """The answer, if it has a schedule: nothing may fit."""
    return answer if "schedule" in answer else None


def schedule_of_best(answer: Document) -> Document | None:
    """What a training plan's answer has of a schedule of its best plan."""
    best = answer.get("best")
    solved: Document | None = best.get("schedule") if best else None
    return solved


def write(answer: Document, _: Source) -> str:
    """The table."""
    devices = [stage["device"] for stage in answer["problem"]["stages"]]
    ops = sorted(answer["schedule"]["ops"], key=itemgetter("start_ns"))
    rows = (
        (
            devices[op["stage"]],
            op["op"],
            op["stage"],
            op["micro_batch"],
            op["start_ns"],
            op["end_ns"],
            op["end_ns"] - op["start_ns"],
        )
        for op in ops
    )
    return csv_text(COLUMNS, rows)


SCHEDULE_CSV = Format(
    name="csv",
    title="Operations as a table (CSV)",
    media_type=MEDIA_TYPE,
    extension=EXTENSION,
    carries="Device, stage, micro-batch, start and end of every operation, offloads too.",
    leaves_out="Memory, transfers between stages, and what ranks have to wait for.",
    part=with_schedule,
    write=write,
)
BEST_SCHEDULE_CSV = replace(
    SCHEDULE_CSV,
    name="schedule-csv",
    title="Operations of the best plan's schedule as a table (CSV)",
    extension=f"schedule.{EXTENSION}",
    part=schedule_of_best,
)
