"""What a solve did and when: improvements, the gap over time, and what each step reached."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from planner.pipeline.names import Step

LONGEST_TRACE = 400
"""Points of the gap's course that an answer carries at most; the middle ones are thinned out."""


@dataclass
class Trace:
    """The course of one solve. Times are seconds since `started` (of `time.monotonic`)."""

    started: float
    improvements: list[dict[str, Any]] = field(default_factory=list)
    ablation: list[dict[str, Any]] = field(default_factory=list)
    gap: list[dict[str, Any]] = field(default_factory=list)
    _best_ns: int | None = None
    _bound_ns: int | None = None
    _own_best_ns: int | None = None

    def seconds(self) -> float:
        """Seconds since the start."""
        return round(time.monotonic() - self.started, 3)

    @contextmanager
    def step(self, name: Step) -> Iterator[None]:
        """Everything in this context belongs to one step of the ablation.

        Its entry has what the step itself reached (`reached_ns`, None if it made no valid
        schedule) and the best of all after it (`best_ns`). A step that runs again, for another
        placement, goes on with its entry.
        """
        entry = next((e for e in self.ablation if e["step"] == name), None)
        if entry is None:
            entry = {"step": name, "began_s": self.seconds(), "reached_ns": None}
            self.ablation.append(entry)
        self._own_best_ns = entry["reached_ns"]
        try:
            yield
        finally:
            entry |= {
                "ended_s": self.seconds(),
                "reached_ns": self._own_best_ns,
                "best_ns": self._best_ns,
                "lower_bound_ns": self._bound_ns,
            }

    def made(self, objective_ns: int) -> None:
        """The current step made a valid schedule, better than all or not."""
        if self._own_best_ns is None or objective_ns < self._own_best_ns:
            self._own_best_ns = objective_ns

    def improved(self, found_by: str, placement: str, objective_ns: int) -> None:
        """A schedule became the best of all."""
        self._best_ns = objective_ns
        self.improvements.append(
            {
                "found_by": found_by,
                "placement": placement,
                "objective_ns": objective_ns,
                "seconds": self.seconds(),
            }
        )
        self._record_gap()

    def bounded(self, bound_ns: int) -> None:
        """The bound of the whole request is now this."""
        if bound_ns != self._bound_ns:
            self._bound_ns = bound_ns
            self._record_gap()

    def gap_document(self) -> list[dict[str, Any]]:
        """The course of best value and bound, thinned out evenly if it is long."""
        points = self.gap
        if len(points) <= LONGEST_TRACE:
            return points
        last = len(points) - 1
        kept = sorted({round(k * last / (LONGEST_TRACE - 1)) for k in range(LONGEST_TRACE)})
        return [points[k] for k in kept]

    def _record_gap(self) -> None:
        self.gap.append(
            {
                "seconds": self.seconds(),
                "best_ns": self._best_ns,
                "lower_bound_ns": self._bound_ns,
            }
        )
