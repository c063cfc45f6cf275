"""Taking on a request: answer it from a stored result, join a solve in flight, or queue one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from sqlalchemy.orm import Session

from app.database import Database, milliseconds
from app.models import DEFAULT_PRIORITY, Job, Solve, SolveState
from app.repositories.jobs import JobRepository
from app.repositories.solves import SolveRepository

MAX_TRIES = 50

Cache = Literal["miss", "joined", "hit"]


class Resolved(Protocol):
    """A request as the planner resolved it."""

    @property
    def spec(self) -> dict[str, Any]: ...
    @property
    def spec_hash(self) -> str: ...
    @property
    def engine(self) -> str: ...
    @property
    def engine_named(self) -> bool: ...
    @property
    def time_limit_s(self) -> float: ...
    @property
    def stages(self) -> int: ...
    @property
    def micro_batches(self) -> int: ...
    @property
    def operations(self) -> int: ...
    def preview(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class JobOptions:
    """What a client says about a job beside the work itself."""

    name: str | None = None
    tags: tuple[str, ...] = ()
    priority: int = DEFAULT_PRIORITY


@dataclass(frozen=True)
class Choice:
    """What the stored solves offer: an answer, one to join, and results that are out of date."""

    answer: Solve | None
    in_flight: Solve | None
    stale: tuple[Solve, ...]


class _Overtaken(Exception):
    """Another transaction changed what this one had read: read again."""


class Submission:
    """Makes the job of a request. `wake` tells the dispatcher that something was queued."""

    def __init__(self, database: Database, solver_version: str, wake: Callable[[], None]) -> None:
        self._database = database
        self._version = solver_version
        self._wake = wake

    def submit(self, resolved: Resolved, options: JobOptions, *, fresh: bool) -> str:
        """The id of the new job; with `fresh` no stored or running solve answers it."""
        for _ in range(MAX_TRIES):
            try:
                with self._database.writing() as session:
                    job = self._decide(session, resolved, options, fresh)
            except _Overtaken:
                continue
            if job.cache != "hit":
                self._wake()
            return job.id
        raise RuntimeError(f"overtaken {MAX_TRIES} times in a row")

    def _decide(
        self, session: Session, resolved: Resolved, options: JobOptions, fresh: bool
    ) -> Job:
        solves = SolveRepository(session)
        engine = resolved.engine if fresh or resolved.engine_named else None
        known = solves.reusable(resolved.spec_hash, engine)
        if fresh:
            return self._queue(session, resolved, options, retired=known, started_from=None)
        choice = choose(known, self._version)
        chosen = choice.answer or choice.in_flight
        if chosen is not None:
            return self._attach(session, chosen.id, options)
        started_from = self._start_of(solves, choice.stale)
        retired = [solve for solve in choice.stale if solve.engine == resolved.engine]
        return self._queue(session, resolved, options, retired=retired, started_from=started_from)

    def _attach(self, session: Session, solve_id: str, options: JobOptions) -> Job:
        solve = SolveRepository(session).lock_reusable(solve_id)
        if solve is None:
            raise _Overtaken
        SolveRepository(session).raise_priority(solve, options.priority)
        cache: Cache = "hit" if SolveState(solve.state).is_over else "joined"
        return _add_job(session, solve, options, cache)

    def _queue(
        self,
        session: Session,
        resolved: Resolved,
        options: JobOptions,
        *,
        retired: Sequence[Solve],
        started_from: str | None,
    ) -> Job:
        solves = SolveRepository(session)
        solves.retire([solve.id for solve in retired])
        spec = resolved.spec
        solve = solves.insert_unless_known(
            kind=spec["kind"],
            spec_hash=resolved.spec_hash,
            engine=resolved.engine,
            solver_version=self._version,
            spec=json.dumps(spec, separators=(",", ":"), allow_nan=False),
            operations=resolved.operations,
            time_limit_ms=milliseconds(resolved.time_limit_s),
            priority=options.priority,
            started_from=started_from,
        )
        if solve is None:
            raise _Overtaken
        return _add_job(session, solve, options, "miss")

    def _start_of(self, solves: SolveRepository, stale: Sequence[Solve]) -> str | None:
        with_plan = [solve for solve in stale if solve.best_objective_ns is not None]
        if not with_plan:
            return None
        best = min(with_plan, key=lambda solve: solve.best_objective_ns or 0)
        return solves.document(best.id, Solve.incumbent)


def choose(known: Sequence[Solve], solver_version: str) -> Choice:
    """Sort the solves that may answer; a proven plan comes before a merely better-looking one.

    An unproven plan of another solver version is out of date: this version may find a better one.
    """
    stale = tuple(solve for solve in known if _is_stale(solve, solver_version))
    fresh = [solve for solve in known if solve not in stale]
    answers = [solve for solve in fresh if SolveState(solve.state).is_over]
    in_flight = [solve for solve in fresh if not SolveState(solve.state).is_over]
    return Choice(
        answer=min(answers, key=_rank, default=None),
        in_flight=min(in_flight, key=lambda solve: (solve.created_at, solve.id), default=None),
        stale=stale,
    )


def _is_stale(solve: Solve, solver_version: str) -> bool:
    return (
        solve.state == SolveState.SUCCEEDED
        and not solve.proven_optimal
        and solve.solver_version != solver_version
    )


def _rank(solve: Solve) -> tuple[bool, int, int, str]:
    settled = solve.proven_optimal or solve.state == SolveState.INFEASIBLE
    return (not settled, solve.best_objective_ns or 0, solve.created_at, solve.id)


def _add_job(
    session: Session,
    solve: Solve,
    options: JobOptions,
    cache: Cache,
) -> Job:
    return JobRepository(session).add(
        solve=solve,
        name=options.name,
        tags=options.tags,
        priority=options.priority,
        cache=cache,
    )
