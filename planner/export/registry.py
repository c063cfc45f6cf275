"""Which formats there are for answers of each kind. A new one is a module and a line here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planner.export.chrome_trace import BEST_CHROME_TRACE, CHROME_TRACE
from planner.export.format import Document, Format
from planner.export.plans_csv import PLANS_CSV
from planner.export.schedule_csv import BEST_SCHEDULE_CSV, SCHEDULE_CSV
from planner.export.sharding_csv import SHARDING_CSV

FORMATS: Mapping[str, tuple[Format, ...]] = {
    "pipeline": (SCHEDULE_CSV, CHROME_TRACE),
    "sharding": (SHARDING_CSV,),
    "training": (PLANS_CSV, BEST_SCHEDULE_CSV, BEST_CHROME_TRACE),
}
FORMAT_NAMES = tuple(dict.fromkeys(own.name for formats in FORMATS.values() for own in formats))


def formats_of(kind: str, answer: Document) -> Iterable[Format]:
    """Those that this answer can be written in."""
    return (own for own in FORMATS[kind] if own.part(answer) is not None)


def export(kind: str, answer: Document, name: str) -> tuple[Format, str] | None:
    """The answer in the format of this name; None if it cannot be written in it."""
    for own in FORMATS[kind]:
        part = own.part(answer) if own.name == name else None
        if part is not None:
            return own, own.write(part)
    return None
