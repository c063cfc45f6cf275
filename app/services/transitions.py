"""The state machine of a solve: every change of state goes through `move`.

queued ──claim──▶ running ──answer──▶ succeeded | infeasible | failed
  ▲                  │ └──stop requested──▶ cancelled
  │                  └──lost, crashed or given back──▶ queued (or failed, once too often)
  └── cancelled by its last job ──▶ cancelled
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.database import clock_ms, milliseconds
from app.models import Solve, SolveState, rounded_down, rounded_up
from app.services.kept_plan import result_of_incumbent, with_provenance
from planner.pipeline.names import StoppedBy

ALLOWED: dict[SolveState, frozenset[SolveState]] = {
    SolveState.QUEUED: frozenset({SolveState.RUNNING, SolveState.CANCELLED}),
    SolveState.RUNNING: frozenset(
        {
            SolveState.QUEUED,
            SolveState.SUCCEEDED,
            SolveState.FAILED,
            SolveState.CANCELLED,
            SolveState.INFEASIBLE,
        }
    ),
}
# What `end_attempt` and `cancel` read of the large columns.
PLAN_COLUMNS = (Solve.spec, Solve.incumbent, Solve.started_from)
LONGEST_BACKOFF_S = 60.0
LOG_TAIL_LINES = 20


class IllegalTransition(Exception):
    """A solve cannot go from the one state to the other."""


@dataclass(frozen=True)
class Answered:
    """The solver process ended with a result (the dict that the planner returned).

    Its `state` is `succeeded` (then it has `objective`, `lower_bound` and `proven_optimal`, of the
    whole request and in the unit of its kind), `infeasible` or `failed` (then it has `code` and
    `detail`); `document` is what clients get.
    """

    result: dict[str, Any]


@dataclass(frozen=True)
class Crashed:
    """The solver process ended without one."""

    message: str
    log_tail: Sequence[str] = field(default=())


@dataclass(frozen=True)
class Overran:
    """The solver process was killed because it did not stop in time."""


@dataclass(frozen=True)
class OutOfMemory:
    """The solver was stopped because it held more than `limit_bytes`.

    `result` is what it answered before it had to be killed, if it did.
    """

    limit_bytes: int
    result: dict[str, Any] | None


@dataclass(frozen=True)
class GivenBack:
    """The worker shuts down; nobody is to blame, so nothing is counted."""


@dataclass(frozen=True)
class Lost:
    """The worker fell silent."""


Ending = Answered | Crashed | Overran | OutOfMemory | GivenBack | Lost


def move(solve: Solve, target: SolveState) -> None:
    """Set the state, and what goes with it, if the step is allowed."""
    source = SolveState(solve.state)
    if target not in ALLOWED.get(source, frozenset()):
        raise IllegalTransition(f"{source} -> {target}")
    solve.state = target
    solve.lease_until = None
    solve.phase = None
    if target.is_over:
        solve.finished_at = clock_ms()
    elif target is SolveState.QUEUED:
        solve.dispatched_at = None
        solve.not_before = clock_ms()


def end_attempt(
    solve: Solve, ending: Ending, *, max_crashes: int, max_losses: int, log_tail: Sequence[str]
) -> None:
    """Apply the end of one attempt. `solve` is locked, with its `PLAN_COLUMNS` loaded."""
    if solve.stop_requested:
        cancel(solve, ending)
        return
    match ending:
        case Answered(result):
            _answer(solve, result, log_tail)
        case Crashed(message, tail):
            solve.crashes += 1
            if solve.crashes >= max_crashes:
                _fail(solve, "solver_crashed", message, [*log_tail, *tail])
            else:
                move(solve, SolveState.QUEUED)
        case Overran():
            _finish_with_incumbent(solve, log_tail)
        case OutOfMemory():
            _finish_within_memory(solve, ending, log_tail)
        case GivenBack():
            move(solve, SolveState.QUEUED)
        case Lost():
            solve.losses += 1
            if solve.losses > max_losses:
                detail = (
                    f"{solve.losses} workers were lost while they solved it. Ask again once the "
                    "workers keep running; their logs say why they ended."
                )
                _fail(solve, "worker_lost", detail, log_tail)
            else:
                move(solve, SolveState.QUEUED)
                solve.not_before = clock_ms() + milliseconds(backoff_s(solve.losses))


def why_requeued(ending: Ending) -> str | None:
    """Why an attempt that ended so is followed by another one, for people."""
    match ending:
        case Crashed(message):
            return f"solver crashed: {message}"
        case Lost():
            return "worker lost"
        case GivenBack():
            return "given back"
        case _:
            return None


def ending_name(ending: Ending) -> str:
    """What metrics call it: `out_of_memory`."""
    return re.sub("(?<!^)(?=[A-Z])", "_", type(ending).__name__).lower()


def is_final(result: Mapping[str, Any]) -> bool:
    """Whether more time or memory could not change this result."""
    return result["state"] == "infeasible" or bool(result.get("proven_optimal"))


def cancel(solve: Solve, ending: Ending | None = None) -> None:
    """Nobody waits any more: keep the best plan there is as the result.

    `solve` is locked, with its `PLAN_COLUMNS` loaded.
    """
    result = ending.result if isinstance(ending, Answered | OutOfMemory) else None
    if result is not None and "document" in result:
        _store_answer(solve, result)
    elif solve.incumbent is not None:
        _keep_incumbent(solve, StoppedBy.CANCELLED)
    move(solve, SolveState.CANCELLED)


def backoff_s(losses: int) -> float:
    """The first loss is retried at once, the next ones after 2, 4, 8 … seconds."""
    return 0.0 if losses <= 1 else float(min(LONGEST_BACKOFF_S, 2.0 ** (losses - 1)))


def _answer(solve: Solve, result: dict[str, Any], log_tail: Sequence[str]) -> None:
    match result["state"]:
        case "succeeded":
            _store_answer(solve, result)
            move(solve, SolveState.SUCCEEDED)
        case "infeasible":
            _store_answer(solve, result)
            move(solve, SolveState.INFEASIBLE)
        case _:
            tail = [*log_tail, *result.get("log_tail", [])]
            _fail(solve, result["code"], result["detail"], tail)


def _store_answer(solve: Solve, result: dict[str, Any]) -> None:
    objective, bound = result.get("objective"), result.get("lower_bound")
    if objective is not None:
        solve.best_objective = rounded_up(objective)
    if bound is not None:
        solve.lower_bound = rounded_down(bound)
    solve.proven_optimal = bool(result.get("proven_optimal", False))
    solve.result = with_provenance(result["document"], **_circumstances(solve))


def _finish_within_memory(solve: Solve, ending: OutOfMemory, log_tail: Sequence[str]) -> None:
    result = ending.result
    if result is not None and is_final(result):
        _answer(solve, result, log_tail)
    elif result is not None and result["state"] == "succeeded":
        document = result["document"]
        provenance = {**document.get("provenance", {}), "stopped_by": StoppedBy.MEMORY_LIMIT}
        _answer(solve, {**result, "document": {**document, "provenance": provenance}}, log_tail)
    elif solve.incumbent is not None:
        _keep_incumbent(solve, StoppedBy.MEMORY_LIMIT)
        move(solve, SolveState.SUCCEEDED)
    else:
        detail = (
            f"The solver needed more than the {ending.limit_bytes / 2**20:,.0f} MiB that a solve "
            "may hold here, and had found no plan. Ask for a smaller problem or another engine, "
            "or have the operator raise LOADMASTER_SOLVER_MEMORY_BYTES or run fewer solves at once."
        )
        _fail(solve, "out_of_memory", detail, log_tail)


def _finish_with_incumbent(solve: Solve, log_tail: Sequence[str]) -> None:
    if solve.incumbent is None:
        detail = "The solver did not stop at its time limit and had found no plan."
        _fail(solve, "no_plan_within_limit", detail, log_tail)
        return
    _keep_incumbent(solve, StoppedBy.TIME_LIMIT)
    move(solve, SolveState.SUCCEEDED)


def _keep_incumbent(solve: Solve, reason: str) -> None:
    assert solve.incumbent is not None
    assert solve.best_objective is not None
    start = solve.started_from
    document = result_of_incumbent(
        json.loads(solve.spec),
        json.loads(solve.incumbent),
        objective=solve.best_objective,
        lower_bound=solve.lower_bound,
        bound_name=solve.bound_name,
        reason=reason,
        started_from=None if start is None else json.loads(start).get("origin"),
    )
    solve.proven_optimal = bool(document["certificate"]["proven_optimal"])
    solve.result = with_provenance(document, **_circumstances(solve))


def _circumstances(solve: Solve) -> dict[str, Any]:
    began = solve.started_at
    waited = None if began is None else round((began - solve.created_at) / 1000, 3)
    return {"queue_seconds": waited, "attempts": solve.attempt, "worker": solve.worker}


def _fail(solve: Solve, code: str, detail: str, log_tail: Sequence[str]) -> None:
    kept = list(log_tail)[-LOG_TAIL_LINES:]
    solve.error = json.dumps({"code": code, "detail": detail, "log_tail": kept})
    move(solve, SolveState.FAILED)
