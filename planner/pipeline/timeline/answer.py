"""The timelines of an answer: of its own schedule, and of those that it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.pipeline.documents import read_problem
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import ops_of_document, waits_of_document
from planner.pipeline.timeline.document import Title, timeline_document
from planner.pipeline.timing import schedule_from_ops

OWN = "Loadmaster"
"""The name of the answer's own schedule."""
Row = Mapping[str, Any]
"""Of an answer's comparison."""


def own_timeline(answer: Mapping[str, Any], name: str = OWN) -> dict[str, Any]:
    """The timeline of the schedule that a pipeline answer gives, under this name. Of the answer
    `problem` and `schedule` suffice."""
    problem = read_problem(answer["problem"])
    document = answer["schedule"]
    schedule = replace(
        schedule_from_ops(problem, ops_of_document(document["ops"])),
        waits=waits_of_document(document.get("waits", ())),
    )
    title = Title(name, placement_of(answer), True, None, None, document.get("lower_bound_ns"))
    return timeline_document(problem, schedule, title)


def placement_of(answer: Mapping[str, Any]) -> str | None:
    """The placement of the answer's own schedule; the oldest answers do not say."""
    placement: str | None = answer.get("provenance", {}).get("placement")
    return placement


def rows_named(answer: Mapping[str, Any], name: str, placement: str | None) -> list[Row]:
    """The rows of the comparison of this name, in this placement if one is given."""
    return [
        row
        for row in answer.get("comparison", ())
        if row["name"] == name and placement in (None, row["placement"])
    ]


def has_problem_of(answer: Mapping[str, Any], row: Row) -> bool:
    """Whether the row was computed on the answer's own problem. Hypothetical rows always are: they
    are made from it, and there is no other candidate."""
    return bool(row["hypothetical"]) or row["placement"] == placement_of(answer)


def row_timeline(
    answer: Mapping[str, Any], row: Row, problem: PipelineProblem
) -> dict[str, Any] | None:
    """The timeline of the schedule behind a row of the comparison, made again on the problem that
    it was computed on; None where this planner makes another schedule than the row tells of."""
    # Only here, so that who asks for no classic schedule loads no compiler.
    from planner.pipeline.classic.rows import WHOLE_BACKWARD, schedules_named

    for timed in schedules_named(problem, row["name"]):
        figures = (timed.makespan_ns, timed.steady_span_ns, timed.offloads)
        if figures != (row["makespan_ns"], row["steady_span_ns"], row["offloads"]):
            continue
        if list(timed.peak_memory_bytes) != row["peak_memory_bytes"]:
            continue
        title = Title(
            row["name"],
            row["placement"],
            row["fits"],
            row["reason"],
            # Older answers have the reason only.
            row.get("shortage"),
            _bound_ns(answer, row),
        )
        whole = row["name"] in WHOLE_BACKWARD
        return timeline_document(timed.problem, timed.schedule, title, whole_backward=whole)
    return None


def _bound_ns(answer: Mapping[str, Any], row: Row) -> int | None:
    """The proven bound of the row's placement; there is none of a hypothetical one, and it binds
    no schedule that needs more memory than there is."""
    if row["hypothetical"] or not row["fits"]:
        return None
    bounds = {own["placement"]: own for own in answer["certificate"]["placements"]}
    bound: int | None = bounds[row["placement"]]["lower_bound_ns"]
    return bound
