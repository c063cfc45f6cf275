"""A sharding plan as a table: one row per operator, with the stage that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.export.csv_text import EXTENSION, MEDIA_TYPE, Cell, csv_text
from planner.export.format import Document, Format, Source

FIELDS = (
    *("name", "kind", "strategy", "data", "row", "column", "spare", "layers"),
    *("redundant_bytes", "communication_bytes", "memory_bytes"),
)


def with_plan(answer: Document) -> Document | None:
    """The answer, if it has a plan: nothing may fit."""
    return answer if "plan" in answer or "stages" in answer else None


def write(answer: Document, _: Source) -> str:
    """The table."""
    return csv_text(("stage", *FIELDS), _rows(answer.get("stages") or [answer]))


def _rows(stages: Sequence[Document]) -> Iterator[tuple[Cell, ...]]:
    for number, stage in enumerate(stages):
        for operator in stage["plan"]["operators"]:
            # Answers that older versions stored may lack a field.
            yield number, *(operator.get(field) for field in FIELDS)


SHARDING_CSV = Format(
    name="csv",
    title="Operators as a table (CSV)",
    media_type=MEDIA_TYPE,
    extension=EXTENSION,
    carries="The split of every operator, and its redundant, sent and kept bytes.",
    leaves_out="What is sent between operators, and the baselines.",
    part=with_plan,
    write=write,
)
