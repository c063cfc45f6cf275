"""One turn of `step`: the state as it changes, and what is to be carried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from planner.following.estimates import Estimates, Key, estimates_of_series, series_of
from planner.following.look import Event, Look, NewVersion, Outcome, SolveWanted
from planner.following.profile import believed
from planner.following.solve_records import Reason, Setback, SetbackKind
from planner.following.state import RunState
from planner.following.telemetry import Sample
from planner.following.versions import VersionRecord

LONGEST_BACK_OFF = 16
"""Cool-downs, or `resolve_every` where that is longer, between two solves that both come to nothing
on the same profile."""


class Turn:
    """What the parts of a step share. What is made of the window is made once, and only if it is
    asked for: after `follow_versions`, which may change the iteration that it begins at."""

    def __init__(self, state: RunState, look: Look) -> None:
        self.state = state
        self.look = look
        self.events: list[Event] = []
        self.drop_solve = False
        self.publish: NewVersion | None = None
        self.solve: SolveWanted | None = None

    @property
    def newest(self) -> int:
        """The newest iteration; 0 before any."""
        return self.look.newest_iteration or 0

    @property
    def samples(self) -> Sequence[Sample]:
        """The window's samples of the run's shape."""
        return self.state.of_its_shape(self.look.samples)

    @cached_property
    def series(self) -> Mapping[Key, Mapping[int, float]]:
        """The window's samples that count, by stage and quantity."""
        return series_of(self.samples, self.state.counts)

    @cached_property
    def estimates(self) -> Estimates:
        """The estimates of the window that are believed."""
        return believed(self.measured)

    @cached_property
    def measured(self) -> Estimates:
        """All estimates of the window."""
        return estimates_of_series(self.series)

    @cached_property
    def reported_limits(self) -> Mapping[int, int]:
        """The memory limit in bytes that each stage reported last in the window."""
        newest: dict[int, tuple[int, int]] = {}
        first = self.state.first_iteration or 0
        for sample in self.samples:
            limit = sample.values.get("memory_limit_bytes")
            if limit is not None and sample.iteration >= first:
                known = newest.get(sample.stage, (-1, 0))
                newest[sample.stage] = max(known, (sample.iteration, int(limit)))
        return {stage: limit for stage, (_, limit) in newest.items()}

    def change(self, **changes: Any) -> None:
        """Replace fields of the state."""
        self.state = replace(self.state, **changes)

    def replace_version(self, version: VersionRecord) -> None:
        """Put a version in place of the one of its number, or after all others."""
        older = self.state.versions[: version.number - 1]
        newer = self.state.versions[version.number :]
        self.change(versions=(*older, version, *newer))

    def tell(self, kind: str, detail: str) -> None:
        """Add an event at the newest iteration."""
        self.events.append(Event(kind, detail, self.newest))

    def cool_down(self) -> None:
        """No new look for a while."""
        self.change(cool_down_until=self.newest + self.state.settings.cool_down_iterations)

    def set_back(
        self, kind: SetbackKind, reason: Reason, profile: Estimates, *, is_proven: bool = False
    ) -> None:
        """A solve for this profile came to nothing: no new look for twice as long as after the one
        before, where that did too; where it is proven that every other would, until it drifts."""
        settings, known = self.state.settings, self.state.setback
        times = 1 if known is None or known.kind != kind else known.times + 1
        cool_down = max(1, settings.cool_down_iterations)
        longest = LONGEST_BACK_OFF * max(cool_down, settings.resolve_every)
        until = self.newest + min(cool_down * 2 ** (times - 1), longest)
        self.cool_down()
        self.change(setback=Setback(kind, times, None if is_proven else until, profile, reason))

    def outcome(self) -> Outcome:
        """What the turn has come to."""
        return Outcome(self.state, tuple(self.events), self.drop_solve, self.publish, self.solve)
