"""What a new solve starts from: the best stored plan of the same or of the nearest problem."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from sqlalchemy.orm import Session

from app.models import Solve
from app.repositories.jobs import JobRepository
from app.repositories.solves import SolveRepository
from planner.pipeline.names import StartKind
from planner.pipeline.similarity import differs_only_in_limits, distance

NEIGHBOURS = 20
MOST_BYTES = 64 * 2**20
"""Of all starts of one transaction together: plans of large problems have megabytes, and a batch
may have a thousand solves that start from one. The rest starts from nothing stored."""


class Sought(Protocol):
    """What decides where a solve starts."""

    @property
    def problem_hash(self) -> str: ...
    @property
    def shape_hash(self) -> str | None: ...
    @property
    def profile(self) -> dict[str, Any] | None: ...


class Starts:
    """The starts of these new solves of one tenant.

    A start is ``{"placement", "found_by", "schedule", "origin"}``, where `origin` has the `kind`
    (`same_problem`, `other_limit` or `nearest_profile`), the `job_id` whose plan it is, and the
    `distance` of the two problems. The best plan of the same problem comes before the plan of the
    nearest among the newest solves of the same shape. Kinds whose solves start from nothing stored
    have no shape. Only solves that were made for the same tenant are looked at.
    """

    def __init__(self, session: Session, tenant: str, sought: Sequence[Sought]) -> None:
        self._solves = SolveRepository(session)
        self._jobs = JobRepository(session)
        self._tenant = tenant
        problems = {one.problem_hash for one in sought if one.shape_hash is not None}
        self._same = self._solves.best_plans(problems, tenant) if problems else {}
        self._neighbours: dict[str, list[tuple[str, Any]]] = {}
        self._plans: dict[str, tuple[str, str | None]] = {}
        self._bytes_left = MOST_BYTES

    def of(self, sought: Sought) -> str | None:
        """The start of one of them as JSON text, or None where nothing stored would do."""
        if sought.shape_hash is None or sought.profile is None:
            return None
        same = self._same.get(sought.problem_hash)
        if same is not None:
            return self._start(same, "same_problem", 0.0)
        profile = sought.profile
        near = [
            (distance(profile, known), known, solve_id)
            for solve_id, known in self._of_shape(sought.shape_hash)
        ]
        if not near:
            return None
        apart, known, solve_id = min(near, key=lambda entry: entry[0])
        kind = StartKind.NEAREST_PROFILE
        if differs_only_in_limits(profile, known):
            kind = StartKind.OTHER_LIMIT
        return self._start(solve_id, kind, apart)

    def _of_shape(self, shape_hash: str) -> list[tuple[str, Any]]:
        if shape_hash not in self._neighbours:
            self._neighbours[shape_hash] = [
                (neighbour.solve_id, json.loads(neighbour.profile))
                for neighbour in self._solves.neighbours(shape_hash, self._tenant, NEIGHBOURS)
            ]
        return self._neighbours[shape_hash]

    def _start(self, solve_id: str, kind: str, apart: float) -> str | None:
        if self._bytes_left <= 0:
            return None
        if solve_id not in self._plans:
            text = self._solves.document(solve_id, Solve.incumbent)
            assert text is not None
            self._plans[solve_id] = (text, self._jobs.first_of(solve_id, self._tenant))
        plan, job_id = self._plans[solve_id]
        origin = {"kind": kind, "job_id": job_id, "distance": round(apart, 6)}
        # The plan may have megabytes; it is stored as a JSON object and goes on as it is.
        start = f'{plan[:-1]},"origin":{json.dumps(origin, separators=(",", ":"))}}}'
        self._bytes_left -= len(start)
        return start
