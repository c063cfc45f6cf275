"""Which iteration of a run is the newest, though a report may have a wrong number: what lies more
than a window before it is late, so that no single number may move it far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

FURTHEST_FIRST = 10_000_000
"""The first report of a run may have an iteration up to this: a run may be resumed."""
FURTHEST_AHEAD = 10_000
"""Iterations: a post that is further ahead of the newest one is a mistake, and two that are further
apart do not confirm each other."""
NEAR = 10
"""Iterations: what is further ahead moves the newest one only where other stages confirm it."""


@dataclass(frozen=True, slots=True)
class Begun:
    """Where a run begins: its first iteration, its newest, and what was reported far from them."""

    first: int
    newest: int
    stray: tuple[int, ...]


def begun(by_stage: Mapping[int, Sequence[int]], kept: int) -> Begun | None:
    """Where a run begins whose stages have reported these iterations, each in order; None while
    none of them is confirmed.

    It is where most of them are, within `FURTHEST_AHEAD` of each other, of which there have to be
    two. One alone is enough up to `NEAR`, before which hardly anything can come.
    """
    ordered = sorted({iteration for reported in by_stage.values() for iteration in reported})
    groups: list[list[int]] = []
    for iteration in ordered:
        if groups and iteration - groups[-1][-1] <= FURTHEST_AHEAD:
            groups[-1].append(iteration)
        else:
            groups.append([iteration])
    most = max(groups, key=len, default=[])
    if len(most) < 2 and (len(groups) != 1 or ordered[0] > NEAR):
        return None
    near = {
        stage: within
        for stage, reported in by_stage.items()
        if (within := [own for own in reported if most[0] <= own <= most[-1]])
    }
    newest = advanced(most[0], most)
    stray = tuple(iteration for iteration in ordered if not most[0] <= iteration <= most[-1])
    return Begun(most[0], max(newest, confirmed_newest(newest, near, kept)), stray)


def advanced(newest: int, iterations: Iterable[int]) -> int:
    """The newest iteration after these, none of which takes it further than `NEAR` by itself."""
    for iteration in sorted(iterations):
        if newest < iteration <= newest + NEAR:
            newest = iteration
    return newest


def confirmed_newest(newest: int, by_stage: Mapping[int, Sequence[int]], kept: int) -> int:
    """The lower median over stages of how far each has come, so that no single one moves it; where
    only one stage reports, its second newest iteration.

    `by_stage` has iterations in order, `kept` is how many before the newest one are not late.
    """
    if len(by_stage) == 1:
        (own,) = by_stage.values()
        return own[-2] if len(own) > 1 else own[-1]
    reached = sorted(_reached(newest, own, kept) for own in by_stage.values())
    return reached[(len(reached) - 1) // 2]


def _reached(newest: int, iterations: Sequence[int], kept: int) -> int:
    """The newest iteration of a stage; one that makes late what the stage would report next counts
    once another one has followed: a single report may have all stages."""
    reached = previous = newest
    for iteration in iterations:
        reached = max(reached, iteration if iteration - previous <= kept else previous)
        previous = iteration
    return reached
