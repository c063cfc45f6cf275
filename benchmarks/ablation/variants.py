"""The solver of pipeline schedules with parts of it left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.pipeline.collecting import seldom_collected
from planner.pipeline.names import Step
from planner.pipeline.options import Engine
from planner.pipeline.portfolio.exact import ExactStep
from planner.pipeline.portfolio.searching import add_starts, search
from planner.pipeline.portfolio.state import SolveState
from planner.pipeline.request import resolve_request
from planner.pipeline.solve import Portfolio, run
from planner.pipeline.spec import read_spec
from planner.progress import SilentReporter, never
from planner.warm_up import MOVES, problems

THREADS = 1


class Heuristics(Portfolio):
    """Bounds, classic schedules and AdaOffload."""

    def _run_all_engines(self, exact: ExactStep) -> None:
        """None of them."""


class LocalSearch(Portfolio):
    """The same, then the search with all the time that is left."""

    def _run_all_engines(self, exact: ExactStep) -> None:
        state = self.state
        if state.is_done():
            return
        with state.trace.step(Step.MORE_STARTS):
            add_starts(state)
        with state.trace.step(Step.LOCAL_SEARCH):
            self.moves = search(state, state.deadline)


HEURISTICS, SEARCH, AUTO = "heuristics", "+ local search", "whole portfolio"
VARIANTS: Mapping[str, tuple[type[Portfolio], Engine]] = {
    HEURISTICS: (Heuristics, "auto"),
    SEARCH: (LocalSearch, "auto"),
    "+ CBC": (Portfolio, "cbc"),
    "+ HiGHS": (Portfolio, "highs"),
    "+ CP-SAT": (Portfolio, "cp_sat"),
    AUTO: (Portfolio, "auto"),
}
"""Each but the last is the heuristics with one thing more. An engine that a request names runs
right after the heuristics; the whole portfolio has the search, the linear relaxation and CP-SAT."""


def solve(problem: Mapping[str, Any], variant: str, limit_s: float) -> dict[str, Any]:
    """The answer of a variant on one thread, as `planner.pipeline.solve.run` gives it.

    Raises `SolverCrash` if the process of an engine died.
    """
    portfolio, engine = VARIANTS[variant]
    solver = {"engine": engine, "time_limit_s": limit_s, "threads": THREADS}
    spec = resolve_request({"problem": problem, "solver": solver}).spec
    with seldom_collected():
        state = SolveState(read_spec(spec), SilentReporter(), never, None)
        return portfolio(state).solve(None)


def load_compiled() -> None:
    """Load what is compiled, so that the first run of a variant does not wait for it."""
    for problem in problems():
        body = {"problem": problem, "solver": {"search_iterations": MOVES, "threads": THREADS}}
        run(resolve_request(body).spec, SilentReporter(), never)
