"""Taking on a request: answer it from a stored result, join a solve in flight, or queue one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.database import Database, clock_ms, milliseconds
from app.models import DEFAULT_PRIORITY, LONG, SHORT, Job, Solve, SolveState
from app.repositories.jobs import JobRepository
from app.repositories.solves import SolveRepository
from app.repositories.tenants import TenantRepository
from app.services.starts import Sought, stored_start
from app.settings import Settings

MAX_TRIES = 50

Cache = Literal["miss", "joined", "hit"]


class Resolved(Sought, Protocol):
    """A request as the planner resolved it."""

    @property
    def spec(self) -> dict[str, Any]: ...
    @property
    def spec_hash(self) -> str: ...
    @property
    def mip_gap(self) -> float: ...
    @property
    def is_reproducible(self) -> bool: ...
    @property
    def engine(self) -> str: ...
    @property
    def engine_named(self) -> bool: ...
    @property
    def time_limit_s(self) -> float: ...
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

    def __init__(
        self,
        database: Database,
        settings: Settings,
        solver_version: str,
        wake: Callable[[], None],
    ) -> None:
        self._database = database
        self._settings = settings
        self._version = solver_version
        self._wake = wake

    def submit(self, tenant: str, resolved: Resolved, options: JobOptions, *, fresh: bool) -> str:
        """The id of the new job; with `fresh` no stored or running solve answers it."""
        columns = {
            **_columns(resolved, self._version),
            "tenant": tenant,
            "queue": queue_of(resolved.time_limit_s, self._settings),
        }
        for _ in range(MAX_TRIES):
            try:
                with self._database.writing() as session:
                    job = self._decide(session, resolved, columns, options, fresh)
            except _Overtaken:
                continue
            if job.cache != "hit":
                self._wake()
            return job.id
        raise RuntimeError(f"overtaken {MAX_TRIES} times in a row")

    def _decide(
        self,
        session: Session,
        resolved: Resolved,
        columns: Mapping[str, Any],
        options: JobOptions,
        fresh: bool,
    ) -> Job:
        solves = SolveRepository(session)
        tenant = str(columns["tenant"])
        scope = TenantRepository(session).scope_of(tenant)
        columns = {**columns, "scope": scope}
        engine = resolved.engine if fresh or resolved.engine_named else None
        known = solves.reusable(resolved.spec_hash, engine, scope)
        if fresh:
            return self._queue(session, columns, options, retired=known, started_from=None)
        # Which plan within a gap is stored is chance; a reproducible answer must not depend on it.
        mip_gap = 0.0 if resolved.is_reproducible else resolved.mip_gap
        settled = solves.settled(resolved.problem_hash, engine, mip_gap, scope)
        choice = choose(known, settled, self._version)
        chosen = choice.answer or choice.in_flight
        if chosen is not None:
            return self._attach(session, tenant, chosen.id, options)
        retired = [solve for solve in choice.stale if solve.engine == resolved.engine]
        started_from = None
        if not resolved.is_reproducible:
            started_from = stored_start(session, tenant, resolved)
        return self._queue(session, columns, options, retired=retired, started_from=started_from)

    def _attach(self, session: Session, tenant: str, solve_id: str, options: JobOptions) -> Job:
        solve = SolveRepository(session).lock_reusable(solve_id)
        if solve is None:
            raise _Overtaken
        SolveRepository(session).raise_priority(solve, options.priority)
        solve.asked_at = session.scalars(select(clock_ms())).one()
        cache: Cache = "hit" if SolveState(solve.state).is_over else "joined"
        return _add_job(session, tenant, solve, options, cache)

    def _queue(
        self,
        session: Session,
        columns: Mapping[str, Any],
        options: JobOptions,
        *,
        retired: Sequence[Solve],
        started_from: str | None,
    ) -> Job:
        solves = SolveRepository(session)
        solves.retire([solve.id for solve in retired])
        solve = solves.insert_unless_known(
            **columns, priority=options.priority, started_from=started_from
        )
        if solve is None:
            raise _Overtaken
        return _add_job(session, solve.tenant, solve, options, "miss")


def queue_of(time_limit_s: float, settings: Settings) -> str:
    """The queue of a solve, by what it may cost at most: its time limit."""
    return SHORT if time_limit_s <= settings.short_time_limit_s else LONG


def choose(known: Sequence[Solve], settled: Solve | None, solver_version: str) -> Choice:
    """Sort the solves that may answer; a proven plan comes before a merely better-looking one.

    `known` are solves of the identical spec, `settled` an answer to the same problem under any
    options that is proven to be good enough, by whichever solver version.
    An unproven plan of another solver version is out of date: this version may find a better one.
    """
    stale = tuple(solve for solve in known if _is_stale(solve, solver_version))
    fresh = [solve for solve in known if solve not in stale]
    answers = [solve for solve in fresh if SolveState(solve.state).is_over]
    if settled is not None:
        answers.append(settled)
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
    return (not settled, solve.best_objective or 0, solve.created_at, solve.id)


def _columns(resolved: Resolved, solver_version: str) -> dict[str, Any]:
    """What a solve of this request stores; made before the database is asked for its lock."""
    spec, profile = resolved.spec, resolved.profile
    return {
        "kind": spec["kind"],
        "spec_hash": resolved.spec_hash,
        "problem_hash": resolved.problem_hash,
        "shape_hash": resolved.shape_hash,
        "profile": None if profile is None else _json(profile),
        "engine": resolved.engine,
        "solver_version": solver_version,
        "spec": _json(spec),
        "operations": resolved.operations,
        "time_limit_ms": milliseconds(resolved.time_limit_s),
    }


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _add_job(
    session: Session,
    tenant: str,
    solve: Solve,
    options: JobOptions,
    cache: Cache,
) -> Job:
    return JobRepository(session).add(
        solve=solve,
        tenant=tenant,
        name=options.name,
        tags=options.tags,
        priority=options.priority,
        cache=cache,
    )
