"""Solves of the benchmark: the ordinary solver with a small, reproducible budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.timing import with_weights
from planner.documents import canonical_hash
from planner.errors import OrderError
from planner.pipeline.classic.sequences import one_forward_one_backward
from planner.pipeline.documents import problem_to_document
from planner.pipeline.orders import Orders
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.replacement import running_schedule
from planner.pipeline.replan import running_start
from planner.pipeline.request import resolve_request
from planner.pipeline.robust.waits import with_waits
from planner.pipeline.schedule import Schedule
from planner.pipeline.solve import run
from planner.pipeline.timing import time_orders
from planner.progress import SilentReporter, never


@dataclass(frozen=True)
class Plan:
    """A schedule with its document, and the comparison with what ran before, if there was any;
    `unsafe` says why memory may not suffice under jitter, if so."""

    schedule: Schedule
    document: Mapping[str, Any]
    replacement: Mapping[str, Any] | None = None
    unsafe: str | None = None


class Solver:
    """Solves with `search_iterations`; what was solved once is not solved again."""

    def __init__(self, search_iterations: int) -> None:
        self._iterations = search_iterations
        self._known: dict[str, Plan | None] = {}

    def solve(
        self,
        problem: PipelineProblem,
        running: Plan | None = None,
        noise: Sequence[float] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Plan | None:
        """The best plan found, from the running one on; None if none exists."""
        body = {
            "problem": problem_to_document(problem),
            "solver": {
                **(options or {}),
                "search_iterations": self._iterations,
                "threads": 1,
            },
        }
        start: dict[str, Any] | None = None
        if running is not None:
            start = running_start(running.document, noise=list(noise))
        key = canonical_hash({"body": body, "start": start})
        if key not in self._known:
            self._known[key] = _plan(
                run(resolve_request(body).spec, SilentReporter(), never, start)
            )
        return self._known[key]


def one_f_one_b(problem: PipelineProblem) -> Plan | None:
    """1F1B with W right after each B; None where it does not fit."""
    fused = one_forward_one_backward(problem)
    orders = Orders(tuple(tuple(with_weights(tokens)) for tokens in fused.compute))
    try:
        schedule = with_waits(problem, time_orders(problem, orders))
    except OrderError:
        return None
    return Plan(schedule, schedule.to_document(None))


def _plan(answer: Mapping[str, Any]) -> Plan | None:
    if answer["state"] != "succeeded":
        return None
    document = answer["document"]
    certificate = document["certificate"]
    return Plan(
        running_schedule(document["schedule"]),
        document["schedule"],
        document.get("replacement"),
        None if certificate["memory_safe_under_jitter"] else certificate["memory_safety"],
    )
