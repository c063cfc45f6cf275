"""A plan of this process with a time limit, verified once more: for benchmarks that set many
beside each other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.verified import wrong_in_schedule
from planner.pipeline.options import SolveOptions
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.solve import run
from planner.pipeline.spec import AS_POSTED, Candidate, PipelineSpec
from planner.progress import SilentReporter, never


@dataclass(frozen=True, slots=True)
class Solved:
    """An answer. `objective_ns` is None where nothing fits, or nothing was found in time;
    `wrong` is what the verifier has against the schedule, or why there is none."""

    objective_ns: int | None
    bound_ns: int
    is_proven: bool
    seconds: float
    wrong: str | None


def solved(problem: PipelineProblem, time_limit_s: float) -> Solved:
    """The plan of a problem, on one thread."""
    return solved_in((Candidate(AS_POSTED, problem),), time_limit_s)


def solved_in(candidates: Sequence[Candidate], time_limit_s: float) -> Solved:
    """The plan of the best of these placements of the same work, on one thread."""
    options = SolveOptions(time_limit_s=time_limit_s, threads=1)
    spec = PipelineSpec(tuple(candidates), options)
    started = time.monotonic()
    answer = run(spec.to_document(), SilentReporter(), never)
    seconds = time.monotonic() - started
    if answer["state"] == "infeasible":
        return Solved(None, 0, False, seconds, None)
    if answer["state"] != "succeeded":
        return Solved(None, 0, False, seconds, answer["detail"])
    document = answer["document"]
    return Solved(
        objective_ns=answer["objective"],
        bound_ns=answer["lower_bound"],
        is_proven=answer["proven_optimal"],
        seconds=seconds,
        wrong=wrong_in_schedule(document["problem"], document["schedule"]),
    )
