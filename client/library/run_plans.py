"""The plans that a rank holds, and which of them is for which iteration."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

from client.library.run_views import RunPlan

MOST_HELD = 4
AT_ONCE = -1


@dataclass(frozen=True)
class Held:
    """A plan that a rank has fetched and is able to switch to.

    `prepared` is what the trainer made of it. It is for iterations from `from_iteration` on; None
    while that is open.
    """

    plan: RunPlan
    prepared: Any
    from_iteration: int | None

    @property
    def version(self) -> int:
        """The number of the plan."""
        return self.plan.version


class HeldPlans:
    """The newest plans of a run, read by the trainer's threads and written by one of our own."""

    def __init__(self) -> None:
        # Replaced as a whole, so that readers need no lock.
        self._held: tuple[Held, ...] = ()
        self.arrived = threading.Event()
        """Set once there is a plan."""

    @property
    def all(self) -> tuple[Held, ...]:
        """By ascending version."""
        return self._held

    @property
    def waits_for_iteration(self) -> bool:
        """Whether it is open from which iteration on the newest one is."""
        held = self._held
        return bool(held) and held[-1].from_iteration is None

    def add(self, held: Held) -> None:
        """Hold one more; of too many the oldest are let go."""
        others = [own for own in self._held if own.version != held.version]
        ordered = sorted([*others, held], key=lambda own: own.version)
        self._held = tuple(ordered[-MOST_HELD:])
        self.arrived.set()

    def schedule(self, version: int, from_iteration: int | None) -> None:
        """Say from which iteration on a version is, if that is known. One that is running already
        goes on."""
        if from_iteration is None:
            return
        self._held = tuple(
            replace(own, from_iteration=from_iteration)
            if own.version == version and own.from_iteration != AT_ONCE
            else own
            for own in self._held
        )

    def due(self, iteration: int) -> tuple[Held, ...]:
        """Those that may be run in an iteration, by ascending version."""
        return tuple(
            own
            for own in self._held
            if own.from_iteration is not None and own.from_iteration <= iteration
        )

    def at(self, iteration: int) -> Held | None:
        """The newest one that may be run in an iteration."""
        for own in reversed(self._held):
            if own.from_iteration is not None and own.from_iteration <= iteration:
                return own
        return None

    def to_start_with(self) -> tuple[Held, ...]:
        """Those that a training that begins now may run: what is running already, and while
        nothing is, the newest ones."""
        return tuple(own for own in self._held if own.from_iteration == AT_ONCE) or self._held
