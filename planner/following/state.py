"""What is remembered of a run between two looks at it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from planner.following.estimates import (
    Estimates,
    estimates_from_document,
    estimates_to_document,
)
from planner.following.measured import Before
from planner.following.settings import FollowSettings
from planner.following.solve_records import Reason, Setback, SolveInFlight
from planner.following.telemetry import PLAN_VERSION, Sample
from planner.following.versions import VersionRecord, VersionState
from planner.pipeline.options import SolveOptions
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.similarity import shape_hash
from planner.pipeline.spec import AS_POSTED, Candidate, PipelineSpec

MISSING_NAMED = 8
"""Of ranks that have not acknowledged a version, the first."""
SETTLING = 2
"""Iterations after a swap that are not measured: allocators and links settle."""

WHAT_SETBACKS_DEPEND_ON = (
    "min_gain",
    "memory_headroom",
    "solve_time_limit_s",
    "resolve_every",
    "cool_down",
)
"""Settings that decide whether a solve comes to nothing, or how long none is asked for then."""


@dataclass(frozen=True)
class RunState:
    """A run as `step` knows it; it changes only where something happens.

    `base` is the problem of the run's body; `anchor` the profile that the plan published last was
    made for (what it lacks is as in `base`). `first_iteration` is the first that this shape
    reported. `memory_limits` are those first reported, by stage: `base` belongs to them.
    `limits_solved_for` are those that the newest solve was asked for with. `solves` counts the
    solves asked for; `setback` the newest of those that came to nothing since the last publication;
    `rollbacks` the versions rolled back, less those confirmed since, and
    `rolled_back_on` is the profile that the last of them was made for. `busy_links` are stages
    whose link was too busy when a solve was last asked for. `shape_changed` and `limits_changed`
    wait for the next look. `running` is the version that ranks run; None in a new shape, whose
    first version is `shape_since`. `disbelieved` are stages whose memory deltas are not believed;
    `missed_for` is the newest version that ranks were told to be missing for.
    """

    settings: FollowSettings
    base: PipelineProblem
    versions: tuple[VersionRecord, ...] = ()
    running: int | None = None
    first_iteration: int | None = None
    anchor: Estimates = field(default_factory=dict)
    memory_limits: Mapping[int, int] = field(default_factory=dict)
    limits_solved_for: Mapping[int, int] = field(default_factory=dict)
    solving: SolveInFlight | None = None
    solves: int = 0
    last_solve_iteration: int | None = None
    cool_down_until: int = 0
    setback: Setback | None = None
    rollbacks: int = 0
    rolled_back_on: Estimates | None = None
    busy_links: frozenset[int] = frozenset()
    ever_acked: bool = False
    before: Before | None = None
    shape_since: int = 1
    shape_changed: bool = False
    limits_changed: bool = False
    disbelieved: frozenset[int] = frozenset()
    missed_for: int | None = None

    def counts(self, iteration: int) -> bool:
        """Whether an iteration is measured: not before the warm-up is over nor right after a
        swap."""
        first = self.first_iteration
        if first is None or iteration < first + self.settings.warm_up:
            return False
        return not any(
            version.apply_at_iteration <= iteration < version.apply_at_iteration + SETTLING
            for version in self.versions
            if version.apply_at_iteration is not None and version.number > 1
        )

    def of_its_shape(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        """The samples but for those of an older shape.

        Those are of a version before `shape_since`. What names no version is of the old shape too
        until the restart has been seen: nothing else tells the two apart.
        """
        if self.shape_since == 1:
            return samples
        unnamed = 0 if self.awaits_restart else self.shape_since
        stages = len(self.base.stages)
        return [
            sample
            for sample in samples
            if sample.stage < stages
            and sample.values.get(PLAN_VERSION, unnamed) >= self.shape_since
        ]

    @property
    def awaits_restart(self) -> bool:
        """Whether no rank is known to have restarted in the newest shape."""
        return self.shape_since > 1 and self.running is None

    @property
    def ranks(self) -> int:
        """How many ranks have to acknowledge a version."""
        return self.settings.ranks or len(self.base.devices)

    def missing_ranks(self, acked: Collection[int]) -> list[int]:
        """The first ranks that have not acknowledged a version that these have."""
        missing = (rank for rank in range(self.ranks) if rank not in acked)
        return list(islice(missing, MISSING_NAMED))

    @property
    def has_plan(self) -> bool:
        """Whether there is a version for its shape."""
        return len(self.versions) >= self.shape_since

    def version(self, number: int) -> VersionRecord:
        """One version; `KeyError` if there is none of this number."""
        if not 1 <= number <= len(self.versions):
            raise KeyError(number)
        return self.versions[number - 1]

    @property
    def newest(self) -> VersionRecord | None:
        """The version published last."""
        return self.versions[-1] if self.versions else None

    @property
    def pending(self) -> VersionRecord | None:
        """The version that is published or scheduled and has not been reached; at most one."""
        newest = self.newest
        waiting = (VersionState.PUBLISHED, VersionState.SCHEDULED)
        return newest if newest is not None and newest.state in waiting else None

    def to_document(self) -> dict[str, Any]:
        """The state as JSON but for `base`, which is stored once and for all."""
        return {
            "settings": self.settings.model_dump(),
            "versions": [version.to_document() for version in self.versions],
            "running": self.running,
            "first_iteration": self.first_iteration,
            "anchor": estimates_to_document(self.anchor),
            "memory_limits": _by_text(self.memory_limits),
            "limits_solved_for": _by_text(self.limits_solved_for),
            "solving": self.solving and self.solving.to_document(),
            "setback": self.setback and self.setback.to_document(),
            "solves": self.solves,
            "last_solve_iteration": self.last_solve_iteration,
            "cool_down_until": self.cool_down_until,
            "rollbacks": self.rollbacks,
            "rolled_back_on": None
            if self.rolled_back_on is None
            else estimates_to_document(self.rolled_back_on),
            "busy_links": sorted(self.busy_links),
            "ever_acked": self.ever_acked,
            "before": self.before and self.before.to_document(),
            "shape_since": self.shape_since,
            "shape_changed": self.shape_changed,
            "limits_changed": self.limits_changed,
            "disbelieved": sorted(self.disbelieved),
            "missed_for": self.missed_for,
        }

    @staticmethod
    def from_document(document: Mapping[str, Any], base: PipelineProblem) -> RunState:
        """The state that `to_document` wrote, of a run whose problem is `base`."""
        solving, setback = document["solving"], document["setback"]
        before, rolled_back_on = document["before"], document["rolled_back_on"]
        return RunState(
            **{
                **document,
                "settings": FollowSettings.model_validate(document["settings"]),
                "base": base,
                "versions": tuple(map(VersionRecord.from_document, document["versions"])),
                "anchor": estimates_from_document(document["anchor"]),
                "memory_limits": _by_stage(document["memory_limits"]),
                "limits_solved_for": _by_stage(document["limits_solved_for"]),
                "solving": solving and SolveInFlight.from_document(solving),
                "setback": setback and Setback.from_document(setback),
                "rolled_back_on": None
                if rolled_back_on is None
                else estimates_from_document(rolled_back_on),
                "busy_links": frozenset(document["busy_links"]),
                # States that an older version of the service stored do not have it.
                "disbelieved": frozenset(document.get("disbelieved", ())),
                "before": before and Before.from_document(before),
            }
        )


def new_run(base: PipelineProblem, settings: FollowSettings, *, given_plan: bool) -> RunState:
    """A run that starts. With `given_plan` its ranks run version 1 already; without one the first
    solve is in flight, of `base` as it is, and its end makes version 1."""
    if given_plan:
        version = VersionRecord(1, VersionState.CONFIRMED, Reason.GIVEN, 0, 0)
        return RunState(settings, base, (version,), running=1)
    first = SolveInFlight(1, Reason.FIRST, 0, {}, None)
    return RunState(settings, base, solving=first, solves=1)


def changed(
    state: RunState,
    base: PipelineProblem,
    settings: FollowSettings,
    newest_iteration: int | None,
) -> RunState:
    """The state of a run whose body was changed; the next look asks for what follows from it.

    In another shape nothing that was measured counts any more, and nothing that was published and
    not reached is to be waited for.
    """
    if base == state.base:
        is_unplanned = not state.has_plan and state.solving is None
        state = _with_settings(state, settings)
        return replace(state, shape_changed=state.shape_changed or is_unplanned)
    if same_shape(base, state.base):
        return replace(state, settings=settings, base=base, limits_changed=True, setback=None)
    return replace(
        state,
        settings=settings,
        base=base,
        versions=tuple(_given_up(version) for version in state.versions),
        running=None,
        first_iteration=None if newest_iteration is None else newest_iteration + 1,
        setback=None,
        anchor={},
        memory_limits={},
        limits_solved_for={},
        rolled_back_on=None,
        busy_links=frozenset(),
        disbelieved=frozenset(),
        before=None,
        shape_since=len(state.versions) + 1,
        shape_changed=True,
        limits_changed=False,
    )


def _with_settings(state: RunState, settings: FollowSettings) -> RunState:
    """Under other settings a solve that came to nothing may not: what it was for is asked again."""

    def differs(*names: str) -> bool:
        return any(getattr(settings, name) != getattr(state.settings, name) for name in names)

    setback, solving = state.setback, state.solving
    limits_changed = state.limits_changed
    if solving is not None and state.has_plan and differs("memory_headroom"):
        # It looks for a plan that leaves the headroom of before.
        limits_changed = True
    if setback is not None and differs(*WHAT_SETBACKS_DEPEND_ON):
        return replace(
            state,
            settings=settings,
            setback=None,
            cool_down_until=0,
            last_solve_iteration=None,
            busy_links=frozenset(),
            limits_changed=limits_changed or setback.reason is Reason.MEMORY_LIMIT_CHANGE,
        )
    return replace(state, settings=settings, limits_changed=limits_changed)


def same_shape(one: PipelineProblem, other: PipelineProblem) -> bool:
    """Whether schedules of one can be schedules of the other (`planner.pipeline.similarity`)."""
    shapes = [
        shape_hash(PipelineSpec((Candidate(AS_POSTED, problem),), SolveOptions()))
        for problem in (one, other)
    ]
    return shapes[0] == shapes[1]


def _given_up(version: VersionRecord) -> VersionRecord:
    if version.state is VersionState.RUNNING:
        return version.to(VersionState.CONFIRMED)
    if version.state in (VersionState.PUBLISHED, VersionState.SCHEDULED):
        return version.to(VersionState.SUPERSEDED)
    return version


def _by_text(limits: Mapping[int, int]) -> dict[str, int]:
    return {str(stage): limit for stage, limit in limits.items()}


def _by_stage(limits: Mapping[str, int]) -> dict[int, int]:
    return {int(stage): limit for stage, limit in limits.items()}
