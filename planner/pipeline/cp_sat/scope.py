"""What one model decides: all operations, or those of a part of an incumbent."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from planner.pipeline.cp_sat.scale import TimeScale
from planner.pipeline.milp.graph import PrecedenceGraph


@dataclass(frozen=True)
class Surroundings:
    """What stays around the operations that a window decides. Times are in units.

    `earlier`: operations that keep the start given here. `later`: operations that come after all
    decided ones and move forward together, by a *gain* between 0 and `most_gain`. `end_by` and
    `start_by`: when decided operations must have ended, or started, if the gain is 0. `offload`:
    the offload decisions that are settled; a transfer that is neither decided nor earlier nor
    later does not happen. `sequences`: pairs of which the first ends before the second starts;
    `turn`: computations that keep their order among themselves, and their place in it.
    """

    earlier: Mapping[int, int] = field(default_factory=dict)
    later: Set[int] = frozenset()
    most_gain: int | None = None
    end_by: Mapping[int, int] = field(default_factory=dict)
    start_by: Mapping[int, int] = field(default_factory=dict)
    offload: Mapping[tuple[int, int], bool] = field(default_factory=dict)
    sequences: tuple[tuple[int, int], ...] = ()
    turn: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Hint:
    """Where to start from: starts in units of all decided operations, and what is offloaded."""

    starts: Mapping[int, int]
    offloaded: Set[tuple[int, int]]


@dataclass(frozen=True)
class Scope:
    """Operations (numbers of the graph) and how early and late they may start, in units.

    `earliest` and `latest` have one entry for each operation whose start is decided. Without a
    gain the objective lies between `least` and `most` and is minimised.
    """

    graph: PrecedenceGraph
    scale: TimeScale
    earliest: Mapping[int, int]
    latest: Mapping[int, int]
    least: int
    most: int
    around: Surroundings = field(default_factory=Surroundings)
    hint: Hint | None = None

    def happens(self, i: int) -> bool:
        """Whether the operation can be part of the schedule at all."""
        return i in self.earliest or i in self.around.earlier or i in self.around.later

    def duration(self, i: int) -> int:
        """Units that an operation takes if it happens."""
        return self.scale.units(self.graph.duration[i])
