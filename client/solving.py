"""Wait for an answer, store and show it: what the commands that post or show share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from client.errors import EXIT_INFEASIBLE, EXIT_NO_PLAN, NoPlan
from client.library.service import Service
from client.output import write_result
from client.progress import wait_for
from client.render import render_result
from client.sharding import render_sharding
from client.training import render_training

DEFAULT_TIME_LIMIT_S = 60.0
BUDGETS = ("time_limit_s", "search_iterations")
RENDERERS: Mapping[str, Callable[[Console, Mapping[str, Any]], None]] = {
    "pipeline": render_result,
    "sharding": render_sharding,
    "training": render_training,
}


def terminal(*, on_stderr: bool = False) -> Console:
    """Where results are shown."""
    return Console(stderr=on_stderr, highlight=False)


def with_options(body: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """A request with the options that are not None in place of what its `solver` says.

    A time limit also takes the place of an iteration budget, and the reverse.
    """
    given = {key: value for key, value in options.items() if value is not None}
    if not given:
        return dict(body)
    solver = dict(body.get("solver") or {})
    if any(budget in given for budget in BUDGETS):
        for budget in BUDGETS:
            solver.pop(budget, None)
    return {**body, "solver": {**solver, **given}}


def time_limit_s(body: Mapping[str, Any]) -> float | None:
    """The time limit of a request, for the progress bar; None if iterations end the solve."""
    solver = body.get("solver")
    if not isinstance(solver, Mapping):
        return DEFAULT_TIME_LIMIT_S
    if solver.get("search_iterations") is not None:
        return None
    limit = solver.get("time_limit_s")
    if isinstance(limit, (int, float)) and limit > 0:
        return float(limit)
    return DEFAULT_TIME_LIMIT_S


def answer_of(
    client: Service,
    submission: Mapping[str, Any],
    console: Console,
    limit_s: float | None,
) -> dict[str, Any] | None:
    """The result document of a submission, waited for; None if the job ended without one."""
    if submission.get("result") is not None:
        console.print("known already: the stored answer", style="dim")
        return dict(submission["result"])
    wait_for(client, str(submission["id"]), console, limit_s)
    return stored_answer(client, str(submission["id"]), console)


def stored_answer(client: Service, job_id: str, console: Console) -> dict[str, Any] | None:
    """The result document of a job that is over; says why where there is none."""
    try:
        return client.result(job_id)
    except NoPlan as error:
        console.print(f"no plan: {error}", markup=False, highlight=False)
        return None


def finish(
    console: Console, kind: str, result: Mapping[str, Any] | None, output: Path | None
) -> int:
    """Store and show a result of a kind of job; returns the exit status that it stands for."""
    if result is None:
        return EXIT_NO_PLAN
    if output is not None:
        write_result(output, result)
    RENDERERS[kind](console, result)
    if output is not None:
        console.print(f"\nresult file: {output}", markup=False, highlight=False, soft_wrap=True)
    return EXIT_INFEASIBLE if "infeasibility" in result else 0
