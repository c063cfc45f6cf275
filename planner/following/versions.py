"""The versions of a run's plan and the states that they pass through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any


class VersionState(StrEnum):
    """What has become of a version.

    `published`: ranks may fetch and acknowledge it. `scheduled`: every rank has, and it applies
    from `apply_at_iteration` on. `running`: that iteration has been reached, and its gain is being
    measured. `confirmed`: it was not worse than what ran before it. `rolled_back`: it was, and the
    plan before it is published again. `superseded`: it never ran, and a newer one has replaced it.
    """

    PUBLISHED = "published"
    SCHEDULED = "scheduled"
    RUNNING = "running"
    CONFIRMED = "confirmed"
    ROLLED_BACK = "rolled_back"
    SUPERSEDED = "superseded"


_NEXT: Mapping[VersionState, frozenset[VersionState]] = {
    VersionState.PUBLISHED: frozenset({VersionState.SCHEDULED, VersionState.SUPERSEDED}),
    # A scheduled version is replaced only where the run restarts in another shape: ranks that
    # hold it would otherwise switch to it whatever is published since.
    VersionState.SCHEDULED: frozenset({VersionState.RUNNING, VersionState.SUPERSEDED}),
    VersionState.RUNNING: frozenset({VersionState.CONFIRMED, VersionState.ROLLED_BACK}),
    VersionState.CONFIRMED: frozenset(),
    VersionState.ROLLED_BACK: frozenset(),
    VersionState.SUPERSEDED: frozenset(),
}


def may_become(state: VersionState, other: VersionState) -> bool:
    """Whether a version in `state` may pass to `other`."""
    return other in _NEXT[state]


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """One version; gains are shares of the iteration time of the plan that ran before it.

    `copy_of` names the version whose schedule this one publishes again; `needs_restart` says that
    it is for another shape than what ran before, and cannot be swapped in.
    """

    number: int
    state: VersionState
    reason: str
    published_at_iteration: int
    apply_at_iteration: int | None = None
    predicted_gain: float | None = None
    gain_low: float | None = None
    measured_gain: float | None = None
    measured_noise: float | None = None
    copy_of: int | None = None
    needs_restart: bool = False

    def to(self, state: VersionState, **changes: Any) -> VersionRecord:
        """The version in another state. Raises `ValueError` if it may not pass to it."""
        if not may_become(self.state, state):
            raise ValueError(f"version {self.number} is {self.state} and cannot become {state}")
        return replace(self, state=state, **changes)

    def to_document(self) -> dict[str, Any]:
        """The version as JSON, which `from_document` reads."""
        return asdict(self)

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> VersionRecord:
        """The version that `to_document` wrote."""
        return VersionRecord(**{**document, "state": VersionState(document["state"])})
