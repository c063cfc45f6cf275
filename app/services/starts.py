"""What a new solve starts from: the best stored plan of the same or of the nearest problem."""

from __future__ import annotations

import json
from typing import Any, Protocol

from sqlalchemy.orm import Session

from app.models import Solve
from app.repositories.jobs import JobRepository
from app.repositories.solves import SolveRepository
from planner.pipeline.similarity import differs_only_in_limits, distance

NEIGHBOURS = 20


class Sought(Protocol):
    """What decides where a solve starts."""

    @property
    def problem_hash(self) -> str: ...
    @property
    def shape_hash(self) -> str | None: ...
    @property
    def profile(self) -> dict[str, Any] | None: ...


def stored_start(session: Session, tenant: str, sought: Sought) -> str | None:
    """The start of a new solve as JSON text, or None where nothing stored would do.

    That is ``{"placement", "found_by", "schedule", "origin"}``, where `origin` has the `kind`
    (`same_problem`, `other_limit` or `nearest_profile`), the `job_id` whose plan it is, and the
    `distance` of the two problems. The best plan of the same problem comes before the plan of the
    nearest among the newest solves of the same shape. Kinds whose solves start from nothing stored
    have no shape. Only solves that were made for the same tenant are looked at.
    """
    if sought.shape_hash is None or sought.profile is None:
        return None
    solves = SolveRepository(session)
    same = solves.best_plan(sought.problem_hash, tenant)
    if same is not None:
        return _start(session, same, "same_problem", 0.0)
    profile = sought.profile
    near = [
        (distance(profile, known), known, neighbour.solve_id)
        for neighbour in solves.neighbours(sought.shape_hash, tenant, NEIGHBOURS)
        for known in [json.loads(neighbour.profile)]
    ]
    if not near:
        return None
    apart, known, solve_id = min(near, key=lambda entry: entry[0])
    kind = "other_limit" if differs_only_in_limits(profile, known) else "nearest_profile"
    return _start(session, solve_id, kind, apart)


def _start(session: Session, solve_id: str, kind: str, apart: float) -> str:
    text = SolveRepository(session).document(solve_id, Solve.incumbent)
    assert text is not None
    plan = json.loads(text)
    origin = {
        "kind": kind,
        "job_id": JobRepository(session).first_of(solve_id),
        "distance": round(apart, 6),
    }
    return json.dumps({**plan, "origin": origin}, separators=(",", ":"))
