"""What a service works out of an answer, worked out here: timelines and exports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from client.errors import ApiError
from client.library.requests import Document
from planner.errors import CannotExport
from planner.export.format import Source
from planner.export.registry import export, formats_of
from planner.pipeline.documents import read_problem
from planner.pipeline.timeline.answer import has_problem_of, own_timeline, row_timeline


def timeline_of(result: Document, spec: Document, row: Mapping[str, Any] | None) -> Document:
    """The timeline of a result's own schedule, or of a row of its comparison."""
    answer = result["best"].get("schedule") if "best" in result else result
    if not answer or "schedule" not in answer:
        raise _no_timeline("The result has no schedule.")
    if row is None:
        return own_timeline(answer)
    if row["makespan_ns"] is None:
        raise _no_timeline(f"{row['name']} ({row['placement']}) was not made: {row['reason']}.")
    timeline = row_timeline(answer, row, read_problem(_problem(answer, spec, row)))
    if timeline is None:
        raise _no_timeline(f"The result has no {row['name']} like that.")
    return timeline


def exports_of(source: Source) -> list[Document]:
    """The formats that are about what the answer has."""
    return [
        {
            "format": own.name,
            "title": own.title,
            "media_type": own.media_type,
            "written_for": own.written_for,
            "hindrance": hindrance,
        }
        for own, hindrance in formats_of(source)
    ]


def export_of(source: Source, name: str) -> str:
    """The answer in a format of other programs."""
    try:
        return export(source, name)[1]
    except CannotExport as error:
        raise ApiError(404, "There is no such file", str(error), "no_export") from error


def _problem(answer: Document, spec: Document, row: Mapping[str, Any]) -> Document:
    if has_problem_of(answer, row):
        problem: Document = answer["problem"]
        return problem
    problems = {own["placement"]: own["problem"] for own in spec.get("candidates", ())}
    if row["placement"] not in problems:
        raise _no_timeline(f"The request knows no placement {row['placement']}.")
    own: Document = problems[row["placement"]]
    return own


def _no_timeline(detail: str) -> ApiError:
    return ApiError(404, "There is no timeline", detail, "no_timeline")
