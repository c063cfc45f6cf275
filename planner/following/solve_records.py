"""What is remembered of re-solves: why they are asked for, the one in flight, the last setback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from planner.following.estimates import Estimates, estimates_from_document, estimates_to_document


class Reason(StrEnum):
    """Why a plan is looked for, and of a version: why it was published."""

    FIRST = "first"
    INTERVAL = "interval"
    STAGE_TIME_DRIFT = "stage_time_drift"
    MEMORY_DRIFT = "memory_drift"
    LINK_BUSY = "link_busy"
    MEMORY_LIMIT_CHANGE = "memory_limit_change"
    SHAPE_CHANGE = "shape_change"
    ROLLED_BACK = "rolled_back"
    GIVEN = "given"


FIRST_REASONS = (Reason.FIRST, Reason.SHAPE_CHANGE)
MEMORY_REASONS = (Reason.MEMORY_LIMIT_CHANGE, Reason.MEMORY_DRIFT)
SetbackKind = Literal["failed", "refused"]


@dataclass(frozen=True, slots=True)
class SolveInFlight:
    """The one re-solve that a run may have: its number, and the profile that it is made for.

    `start_version` is the running version whose orders it starts from and is compared with; None
    where nothing of the shape runs. `restarts` counts how often in a row a newer profile has
    replaced it.
    """

    number: int
    reason: Reason
    asked_at_iteration: int
    profile: Estimates
    start_version: int | None
    restarts: int = 0

    def to_document(self) -> dict[str, Any]:
        """The solve as JSON, which `from_document` reads."""
        own = {name: getattr(self, name) for name in self.__slots__}
        return {**own, "profile": estimates_to_document(self.profile)}

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> SolveInFlight:
        """The solve that `to_document` wrote."""
        own = {
            "reason": Reason(document["reason"]),
            "profile": estimates_from_document(document["profile"]),
        }
        return SolveInFlight(**{**document, **own})


@dataclass(frozen=True, slots=True)
class Setback:
    """The last solve came to nothing, and so did those before it: `times` in a row in the same way.
    While what is measured is still the `profile` that it was for, none is asked for before
    iteration `until`; none at all where that is None, since it is proven that any other would come
    to the same. `reason` is what the solve was asked for, None in what older versions stored."""

    kind: SetbackKind
    times: int
    until: int | None
    profile: Estimates
    reason: Reason | None = None

    def to_document(self) -> dict[str, Any]:
        """The setback as JSON, which `from_document` reads."""
        own = {name: getattr(self, name) for name in self.__slots__}
        return {**own, "profile": estimates_to_document(self.profile)}

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> Setback:
        """The setback that `to_document` wrote."""
        reason = document.get("reason")
        own = {
            "reason": None if reason is None else Reason(reason),
            "profile": estimates_from_document(document["profile"]),
        }
        return Setback(**{**document, **own})
