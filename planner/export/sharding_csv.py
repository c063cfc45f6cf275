"""A sharding plan as a table: one row per operator, with the stage that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.export.csv_text import EXTENSION, MEDIA_TYPE, Cell, csv_text
from planner.export.format import Document, Format

FIELDS = (
    *("name", "kind", "strategy", "data", "row", "column", "spare", "layers"),
    *("redundant_bytes", "communication_bytes", "memory_bytes"),
)


def with_plan(answer: Document) -> Document | None:
    """The answer, if it has a plan: nothing may fit."""
    return answer if "plan" in answer or "stages" in answer else None


def write(answer: Document) -> str:
    """The table."""
    return csv_text(("stage", *FIELDS), _rows(answer.get("stages") or [answer]))


def _rows(stages: Sequence[Document]) -> Iterator[tuple[Cell, ...]]:
    for number, stage in enumerate(stages):
        for operator in stage["plan"]["operators"]:
            # Answers that older versions stored may lack a field.
            yield number, *(operator.get(field) for field in FIELDS)


SHARDING_CSV = Format("csv", "Operators as a table (CSV)", MEDIA_TYPE, EXTENSION, with_plan, write)
