"""How many layers each pipeline stage gets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Load = Callable[[int, int], float]


def partition(layers: int, stages: int, seconds: Load, over_limit: Load) -> tuple[int, ...]:
    """Layers per stage, at least one each.

    Among the partitions in which no stage needs more memory than it has, one whose longest stage
    is shortest; if there is none, one that exceeds a limit by least. `seconds(stage, layers)` and
    `over_limit(stage, layers)` (at most 0 = fits) may be anything. Exact, by dynamic programming
    over stages and layers given out. What ties goes to later stages, which hold fewer
    micro-batches.
    """
    # Beyond the one that each stage has. excess[n], longest[n]: of the stages so far, with n more.
    spare = layers - stages
    excess = np.where(np.arange(spare + 1) == 0, 0.0, np.inf)
    longest = excess.copy()
    own = np.subtract.outer(np.arange(spare + 1), np.arange(spare + 1))
    before: list[NDArray[np.intp]] = []
    for stage in range(stages):
        counts = range(1, spare + 2)
        over = np.array([max(0.0, over_limit(stage, count)) for count in counts])
        time = np.array([seconds(stage, count) for count in counts])
        # By layers given out after this stage and before it.
        excesses = np.where(own >= 0, np.maximum(excess, over[own]), np.inf)
        longests = np.maximum(longest, time[own])
        excess = excesses.min(axis=1)
        longests[excesses > excess[:, np.newaxis]] = np.inf
        before.append(longests.argmin(axis=1))
        longest = longests.min(axis=1)
    given, found = spare, []
    for previous in reversed(before):
        found.append(1 + given - int(previous[given]))
        given = int(previous[given])
    return tuple(reversed(found))
