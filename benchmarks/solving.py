"""A plan of this process with a time limit, verified once more: for benchmarks that set many
beside each other."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.verified import wrong_in_schedule
from planner.pipeline.documents import problem_to_document
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.request import resolve_request
from planner.pipeline.solve import run
from planner.progress import SilentReporter, never


@dataclass(frozen=True, slots=True)
class Solved:
    """An answer. `objective_ns` is None where nothing fits, or nothing was found in time; `rows`
    are the classic schedules that it was compared with, as the API answers with them; `wrong` is
    what the verifier has against the schedule, or why there is none."""

    objective_ns: int | None
    bound_ns: int
    is_proven: bool
    rows: Sequence[Mapping[str, Any]]
    seconds: float
    wrong: str | None


def solved(problem: PipelineProblem, time_limit_s: float) -> Solved:
    """The plan of a problem, on one thread."""
    body = {
        "problem": problem_to_document(problem),
        "solver": {"time_limit_s": time_limit_s, "threads": 1},
    }
    started = time.monotonic()
    answer = run(resolve_request(body).spec, SilentReporter(), never)
    seconds = time.monotonic() - started
    if answer["state"] == "infeasible":
        return Solved(None, 0, False, [], seconds, None)
    if answer["state"] != "succeeded":
        return Solved(None, 0, False, [], seconds, answer["detail"])
    document = answer["document"]
    return Solved(
        objective_ns=answer["objective"],
        bound_ns=answer["lower_bound"],
        is_proven=answer["proven_optimal"],
        rows=document["comparison"],
        seconds=seconds,
        wrong=wrong_in_schedule(document["problem"], document["schedule"]),
    )
