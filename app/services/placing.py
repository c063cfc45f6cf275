"""Which solve each new job gets: a stored answer, one in flight, or one that is made for it.

All jobs of a transaction are placed together, by a fixed number of statements, since a batch may
have a thousand of them and SQLite's lock is held meanwhile.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from sqlalchemy.orm import Session

from app.models import SolveState
from app.repositories.solves import Candidate, Candidates, SolveRepository, Taken
from app.repositories.tenants import TenantRepository, scope_of
from app.services.resolutions import Resolution
from app.services.starts import Starts
from app.services.stored_answers import choose

Cache = Literal["miss", "joined", "hit"]
T = TypeVar("T")


class Overtaken(Exception):
    """Another transaction changed what this one had read: read again."""


@dataclass(frozen=True)
class Wish:
    """What decides which solve a job gets. `columns` are those of a solve made for it; with
    `fresh` no stored or running solve will do. Where it has a start of its own (JSON text), nobody
    else's request is answered by what comes of it."""

    resolution: Resolution
    columns: Mapping[str, Any]
    priority: int
    fresh: bool
    started_from: str | None = None

    @property
    def engine(self) -> str | None:
        """The engine that has to have solved it; None where any will do."""
        resolution = self.resolution
        return resolution.engine if self.fresh or resolution.engine_named else None

    @property
    def may_start(self) -> bool:
        """Whether a solve made for it may start from a stored plan."""
        return not self.fresh and not self.resolution.is_reproducible

    @property
    def mip_gap(self) -> float:
        """How far from the bound a plan of the same problem may be."""
        # Which plan within a gap is stored is chance; a reproducible answer must not depend on it.
        return 0.0 if self.resolution.is_reproducible else self.resolution.mip_gap


@dataclass(frozen=True)
class Place:
    """The solve that a job gets."""

    solve_id: str
    cache: Cache


class Placing:
    """The placing of one transaction."""

    def __init__(self, session: Session, tenant: str, solver_version: str) -> None:
        self._session = session
        self._solves = SolveRepository(session)
        self._tenant = tenant
        self._version = solver_version

    def place(self, wishes: Sequence[Wish]) -> list[Place]:
        """The places in the order of the wishes. Raises `Overtaken`."""
        candidates = self._candidates(wishes)
        known = _grouped(candidates.known, lambda solve: solve.spec_hash)
        settled = _grouped(candidates.settled, lambda solve: solve.problem_hash)
        made: dict[str, list[_New]] = defaultdict(list)
        chosen: list[_New | str] = []
        for wish in wishes:
            spec_hash = wish.resolution.spec_hash
            found = self._found(wish, known[spec_hash], settled[wish.resolution.problem_hash])
            place = found or next((new for new in made[spec_hash] if new.would_do(wish)), None)
            if place is None:
                place = _New(wish)
                made[spec_hash].append(place)
            chosen.append(place)
        attached = self._attach(
            (place, wish.priority)
            for place, wish in zip(chosen, wishes, strict=True)
            if isinstance(place, str)
        )
        for place, wish in zip(chosen, wishes, strict=True):
            if isinstance(place, _New):
                place.priority = max(place.priority, wish.priority)
        self._queue([new for news in made.values() for new in news], known)
        return [_place(place, wish, attached) for place, wish in zip(chosen, wishes, strict=True)]

    def _candidates(self, wishes: Sequence[Wish]) -> Candidates:
        asking = [wish for wish in wishes if not wish.fresh]
        return self._solves.candidates(
            self._tenant,
            {wish.resolution.spec_hash for wish in wishes},
            {wish.resolution.problem_hash for wish in asking},
            max((wish.mip_gap for wish in asking), default=0.0),
        )

    def _found(self, wish: Wish, known: list[Candidate], settled: list[Candidate]) -> str | None:
        """The stored or running solve that will do."""
        if wish.fresh:
            return None
        choice = choose(known, settled, wish.engine, wish.mip_gap, self._version)
        chosen = choice.answer or choice.in_flight
        return None if chosen is None else chosen.id

    def _attach(self, wanted: Iterable[tuple[str, int]]) -> Mapping[str, Taken]:
        """Lock these solves, so that none is cancelled before its new jobs are there."""
        priorities: dict[str, int] = {}
        for solve_id, priority in wanted:
            priorities[solve_id] = max(priority, priorities.get(solve_id, priority))
        if not priorities:
            return {}
        taken = {solve.id: solve for solve in self._solves.take(list(priorities))}
        if len(taken) < len(priorities):
            raise Overtaken
        self._solves.raise_priorities(
            {
                solve.id: priorities[solve.id]
                for solve in taken.values()
                if solve.state == SolveState.QUEUED and priorities[solve.id] > solve.priority
            }
        )
        return taken

    def _queue(self, made: Sequence[_New], known: Mapping[str, list[Candidate]]) -> None:
        if not made:
            return
        self._solves.retire(
            [
                solve.id
                for new in made
                if new.wish.started_from is None
                for solve in known[new.wish.resolution.spec_hash]
                if solve.engine == new.wish.resolution.engine
            ]
        )
        scope = scope_of(self._tenant, TenantRepository(self._session).get(self._tenant))
        starting = [new.resolution for new in made if new.wish.may_start]
        starts = Starts(self._session, self._tenant, starting)
        rows = [
            {
                **new.wish.columns,
                "id": new.solve_id,
                "scope": scope,
                "priority": new.priority,
                "reusable": new.wish.started_from is None,
                "started_from": starts.of(new.resolution)
                if new.wish.may_start
                else new.wish.started_from,
            }
            for new in made
        ]
        if not self._solves.insert_unless_known(rows):
            raise Overtaken


class _New:
    """A solve that is made in this transaction; later wishes of it may join."""

    def __init__(self, wish: Wish) -> None:
        self.solve_id = str(uuid.uuid4())
        self.wish = wish
        self.priority = wish.priority

    @property
    def resolution(self) -> Resolution:
        """What it solves."""
        return self.wish.resolution

    def would_do(self, wish: Wish) -> bool:
        """Whether a job with the same spec may join it."""
        has_own_start = self.wish.started_from is not None or wish.started_from is not None
        same_engine = wish.engine is None or wish.engine == self.resolution.engine
        return same_engine and not has_own_start


def _place(place: _New | str, wish: Wish, attached: Mapping[str, Taken]) -> Place:
    if isinstance(place, _New):
        return Place(place.solve_id, "miss" if place.wish is wish else "joined")
    is_over = SolveState(attached[place].state).is_over
    return Place(place, "hit" if is_over else "joined")


def _grouped(
    solves: Iterable[Candidate], key: Callable[[Candidate], T]
) -> Mapping[T, list[Candidate]]:
    groups: dict[T, list[Candidate]] = defaultdict(list)
    for solve in solves:
        groups[key(solve)].append(solve)
    return groups
