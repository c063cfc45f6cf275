"""Which formats there are for answers of each kind. A new one is a module and a line here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planner.errors import CannotExport
from planner.export.chrome_trace import BEST_CHROME_TRACE, CHROME_TRACE
from planner.export.format import Format, Source
from planner.export.plans_csv import PLANS_CSV
from planner.export.schedule_csv import BEST_SCHEDULE_CSV, SCHEDULE_CSV
from planner.export.sharding_csv import SHARDING_CSV

FORMATS: Mapping[str, tuple[Format, ...]] = {
    "pipeline": (SCHEDULE_CSV, CHROME_TRACE),
    "sharding": (SHARDING_CSV,),
    "training": (PLANS_CSV, BEST_SCHEDULE_CSV, BEST_CHROME_TRACE),
}


def formats_of(source: Source) -> Iterable[tuple[Format, str | None]]:
    """Those that are about something this answer has, each with why the answer cannot be written
    in it (None where it can)."""
    for own in FORMATS[source.kind]:
        part = own.part(source.answer)
        if part is not None:
            yield own, own.hindrance(part, source)


def export(source: Source, name: str) -> tuple[Format, str]:
    """The answer in the format of this name. Raises `CannotExport`, which says why, where it
    cannot be written in it."""
    for own in FORMATS[source.kind]:
        part = own.part(source.answer) if own.name == name else None
        if part is None:
            continue
        hindrance = own.hindrance(part, source)
        if hindrance is not None:
            raise CannotExport(hindrance)
        return own, own.write(part, source)
    known = ", ".join(own.name for own, hindrance in formats_of(source) if hindrance is None)
    raise CannotExport(f"It is to be had as {known}." if known else "There is no plan to export.")
