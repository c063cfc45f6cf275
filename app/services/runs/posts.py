"""A post of telemetry that waits to be stored, and what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.repositories.run_telemetry import RunFacts
from planner.following.telemetry import Sample


@dataclass(frozen=True)
class Taken:
    """How many samples of a post were stored, were known, and came too late to be of use; and how
    the run stands."""

    accepted: int
    known: int
    late: int
    facts: RunFacts
    newest_iteration: int | None

    def to_document(self) -> dict[str, Any]:
        """The answer to the post."""
        facts = self.facts
        plan = None
        if facts.newest_version is not None:
            plan = {
                "version": facts.newest_version,
                "state": facts.newest_state,
                "apply_at_iteration": facts.apply_at_iteration,
                "running_version": facts.running_version,
            }
        return {
            "accepted": self.accepted,
            "known": self.known,
            "late": self.late,
            "newest_iteration": self.newest_iteration,
            "plan": plan,
        }


@dataclass(frozen=True, eq=False)
class Post:
    tenant: str
    run_id: str
    samples: Sequence[Sample]
    taken: asyncio.Future[Taken]
