"""Which of the stored solves answers a request, and which one it joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.models import SolveState
from app.repositories.solves import Candidate


@dataclass(frozen=True)
class Choice:
    """What the stored solves offer: an answer, or one to join."""

    answer: Candidate | None
    in_flight: Candidate | None


def choose(
    known: Sequence[Candidate],
    settled: Sequence[Candidate],
    engine: str | None,
    mip_gap: float,
    solver_version: str,
) -> Choice:
    """Sort the solves that may answer; a proven plan comes before a merely better-looking one.

    `known` are solves of the identical spec, `settled` answers to the same problem under any
    options that may be proven to be within `mip_gap`, by whichever solver version; an `engine`
    that is named has to have made the answer. That nothing fits is the same whatever the engine.
    An unproven plan of another solver version is out of date: this version may find a better one.
    """
    known = [solve for solve in known if engine is None or solve.engine == engine]
    fresh = [solve for solve in known if not _is_stale(solve, solver_version)]
    answers = [solve for solve in fresh if SolveState(solve.state).is_over]
    answers += [solve for solve in settled if _is_settled(solve, engine, mip_gap)]
    in_flight = [solve for solve in fresh if not SolveState(solve.state).is_over]
    return Choice(
        answer=min(answers, key=_rank, default=None),
        in_flight=min(in_flight, key=lambda solve: (solve.created_at, solve.id), default=None),
    )


def _is_settled(solve: Candidate, engine: str | None, mip_gap: float) -> bool:
    if solve.state == SolveState.INFEASIBLE:
        return True
    if engine is not None and solve.engine != engine:
        return False
    if solve.proven_optimal:
        return True
    best, bound = solve.best_objective, solve.lower_bound
    return (
        best is not None and bound is not None and bound >= best * (1.0 - mip_gap) and mip_gap > 0
    )


def _is_stale(solve: Candidate, solver_version: str) -> bool:
    return (
        solve.state == SolveState.SUCCEEDED
        and not solve.proven_optimal
        and solve.solver_version != solver_version
    )


def _rank(solve: Candidate) -> tuple[bool, int, int, str]:
    settled = solve.proven_optimal or solve.state == SolveState.INFEASIBLE
    return (not settled, solve.best_objective or 0, solve.created_at, solve.id)
