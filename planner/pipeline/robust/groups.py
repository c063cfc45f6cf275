"""Groups of array entries: sorted by group, entries keep their order within each."""

from __future__ import annotations

import numpy as np

from planner.compiled import compiled
from planner.pipeline.kernel.tables import Integers

NOWHERE = -1
"""In place of an operation or a memory that does not exist."""


@compiled
def sorted_by_group(groups: Integers, first: Integers) -> Integers:
    """The entries of each group after those of the group before, in their order."""
    free = first.copy()
    order = np.empty(len(groups), dtype=np.int64)
    for k in range(len(groups)):
        group = groups[k]
        order[free[group]] = k
        free[group] += 1
    return order


def bounds_of(groups: Integers, count: int) -> Integers:
    """Where each of `count` groups begins once entries are sorted by group, and the end."""
    bounds: Integers = np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=count))])
    return bounds.astype(np.int64)


def by_group(group: Integers, count: int) -> tuple[Integers, Integers]:
    """Where each group begins, and the members of all, in their order; none of `NOWHERE`."""
    there = np.flatnonzero(group >= 0)
    first = bounds_of(group[there], count)
    return first, there[sorted_by_group(group[there], first)]


def one_before(members: Integers, first: Integers) -> Integers:
    """For each member of each group the one before it."""
    before = np.roll(members, 1)
    before[first[:-1][first[:-1] < len(members)]] = NOWHERE
    return before


def sums_of(groups: Integers, values: Integers, count: int) -> Integers:
    """The sum of the values of each group; those of `NOWHERE` are left out."""
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, groups[groups >= 0], values[groups >= 0])
    return sums
