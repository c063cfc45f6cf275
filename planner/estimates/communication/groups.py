"""Which ranks form which groups, and how a group lies over the nodes and racks of a cluster.

A rank is the number of a GPU: node x GPUs per node + number in the node. Ranks are coordinates
along axes in mixed radix, the first axis varying fastest, as Megatron-LM's rank generator numbers
them: tensor, context, data, pipeline (`tp-cp-dp-pp`), or with `--use-tp-pp-dp-mapping` pipeline
before data. Expert ranks split the replicas of a pipeline rank (context and data ranks together)
and are neighbours among them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from planner.cost.degrees import Degrees
from planner.cost.hardware import Cluster
from planner.cost.routes import TIERS, Group, Tier, tier_between

PIPELINE_LAST, DATA_LAST = "tp-cp-dp-pp", "tp-cp-pp-dp"


class Kind(StrEnum):
    """What the ranks of a group have between them.

    `DATA` ranks read other samples; `DATA_CONTEXT` ranks hold the same dense parameters where there
    is context parallelism; `EXPERT` ranks split the experts and `EXPERT_DATA` ranks hold the same
    ones; `EMBEDDING` ranks hold the two copies of a tied embedding.
    """

    TENSOR = "tensor"
    CONTEXT = "context"
    DATA = "data"
    DATA_CONTEXT = "data_context"
    PIPELINE = "pipeline"
    EXPERT = "expert"
    EXPERT_DATA = "expert_data"
    EMBEDDING = "embedding"


@dataclass(frozen=True, slots=True)
class Axis:
    """`size` coordinates, each `stride` ranks after the one before."""

    name: str
    size: int
    stride: int


@dataclass(frozen=True, slots=True)
class NestedGroup(Group):
    """The members of `inner` once for each member of `outer`."""

    inner: Group
    outer: Group

    def per(self, size: int) -> int:
        """How many of them lie in a block of `size` neighbouring GPUs, at the least."""
        return self.inner.per(size) * self.outer.per(size)


@dataclass(frozen=True, slots=True)
class Groups:
    """All groups of one kind: a group has every coordinate along `members` and one along each axis
    of `others`. Axes by ascending stride."""

    kind: Kind
    members: tuple[Axis, ...]
    others: tuple[Axis, ...]

    @property
    def size(self) -> int:
        """Ranks of a group."""
        return math.prod(axis.size for axis in self.members)

    @property
    def count(self) -> int:
        """How many groups there are."""
        return math.prod(axis.size for axis in self.others)

    @property
    def span(self) -> int:
        """The last rank of a group less its first."""
        return sum((axis.size - 1) * axis.stride for axis in self.members)

    def first_ranks(self) -> Iterator[int]:
        """The lowest rank of each group, in Megatron-LM's order of groups."""
        return _combinations(self.others)

    def ranks_from(self, first: int) -> list[int]:
        """The group whose lowest rank is `first`, ascending."""
        return [first + offset for offset in _combinations(self.members)]

    def route_group(self) -> Group:
        """The same as the cost model's routes describe a group."""
        inner, *outer = (Group(axis.size, axis.stride) for axis in self.members)
        if not outer:
            return inner
        if outer[0].stride == inner.ranks * inner.stride:
            return Group(self.size, inner.stride)
        return NestedGroup(self.size, inner.stride, inner, outer[0])

    def rule(self) -> str:
        """How to write all groups down."""
        varying = " + ".join(_term(axis) for axis in self.members)
        fixed = " + ".join(_term(axis) for axis in self.others if axis.size > 1)
        ranges = [f"{axis.name} 0 to {axis.size - 1}" for axis in self.members]
        if not fixed:
            return f"rank = {varying}; one group with {', '.join(ranges)}"
        one_each = [f"{axis.name} (0 to {axis.size - 1})" for axis in self.others if axis.size > 1]
        return (
            f"rank = first + {varying} with {', '.join(ranges)}; first = {fixed}, one group for "
            f"each {', '.join(one_each)}"
        )


def _term(axis: Axis) -> str:
    return axis.name if axis.stride == 1 else f"{axis.stride} x {axis.name}"


def _combinations(axes: Sequence[Axis]) -> Iterator[int]:
    """Every sum of one multiple per axis, the first axis varying fastest."""
    steps = [range(0, axis.size * axis.stride, axis.stride) for axis in reversed(axes)]
    return (sum(chosen) for chosen in product(*steps))


@dataclass(frozen=True, slots=True)
class RankOrder:
    """How ranks are numbered: `PIPELINE_LAST`, Megatron-LM's default, or `DATA_LAST`, which is
    defined without expert parallelism only."""

    name: str
    degrees: Degrees

    def axes(self) -> tuple[Axis, ...]:
        """Tensor, context, data and pipeline, by ascending stride."""
        degrees = self.degrees
        context = Axis("context", degrees.context, degrees.tensor)
        inner = degrees.tensor * degrees.context
        if self.name == PIPELINE_LAST:
            outer = (
                Axis("data", degrees.data, inner),
                Axis("pipeline", degrees.pipeline, degrees.gpus_per_rank),
            )
        else:
            outer = (
                Axis("pipeline", degrees.pipeline, inner),
                Axis("data", degrees.data, inner * degrees.pipeline),
            )
        return (Axis("tensor", degrees.tensor, 1), context, *outer)

    def expert_axes(self) -> tuple[Axis, ...]:
        """Tensor, expert, expert_data and pipeline, by ascending stride (`PIPELINE_LAST`)."""
        degrees = self.degrees
        return (
            Axis("tensor", degrees.tensor, 1),
            Axis("expert", degrees.expert, degrees.tensor),
            Axis("expert_data", degrees.expert_replicas, degrees.tensor * degrees.expert),
            Axis("pipeline", degrees.pipeline, degrees.gpus_per_rank),
        )

    def pipeline_stride(self) -> int:
        """From a rank to its counterpart of the next pipeline rank."""
        return next(axis.stride for axis in self.axes() if axis.name == "pipeline")

    def columns(self, ranks: Sequence[int]) -> dict[str, list[int]]:
        """Coordinates of ranks, axis by axis; `expert` counts within an expert group."""
        axes = [*self.axes(), self.expert_axes()[1]]
        return {axis.name: [rank // axis.stride % axis.size for rank in ranks] for axis in axes}

    def formula(self) -> str:
        """A rank from its coordinates."""
        terms = [_term(axis) for axis in self.axes() if axis.size > 1]
        return f"rank = {' + '.join(terms) or '0'}"

    def groups(self, *, tied_embeddings: bool) -> dict[Kind, Groups]:
        """Every kind with more than one rank per group."""
        found = [
            self._groups(Kind.TENSOR, "tensor"),
            self._groups(Kind.CONTEXT, "context"),
            self._groups(Kind.DATA, "data"),
            self._groups(Kind.PIPELINE, "pipeline"),
        ]
        if self.degrees.context > 1 and self.degrees.data > 1:
            found.append(self._groups(Kind.DATA_CONTEXT, "context", "data"))
        if self.degrees.expert > 1:
            found.append(_select(Kind.EXPERT, self.expert_axes(), "expert"))
            found.append(_select(Kind.EXPERT_DATA, self.expert_axes(), "expert_data"))
        if tied_embeddings and self.degrees.pipeline > 1:
            pipelines = self._groups(Kind.PIPELINE, "pipeline")
            ends = Axis("end", 2, (self.degrees.pipeline - 1) * self.pipeline_stride())
            found.append(Groups(Kind.EMBEDDING, (ends,), pipelines.others))
        order = list(Kind)
        found.sort(key=lambda groups: order.index(groups.kind))
        return {groups.kind: groups for groups in found if groups.size > 1}

    def _groups(self, kind: Kind, *members: str) -> Groups:
        return _select(kind, self.axes(), *members)


def _select(kind: Kind, axes: Sequence[Axis], *members: str) -> Groups:
    return Groups(
        kind,
        tuple(axis for axis in axes if axis.name in members),
        tuple(axis for axis in axes if axis.name not in members),
    )


def count_by_tier(groups: Groups, cluster: Cluster) -> dict[Tier, int]:
    """How many groups reach how far. Racks are alike, so that only the place in one counts."""
    counts = dict.fromkeys(TIERS, 0)
    places = Counter(first % cluster.gpus_per_rack for first in groups.first_ranks())
    for place, count in places.items():
        counts[tier_between(cluster, place, place + groups.span)] += count
    return counts


def widest_group(groups: Groups, cluster: Cluster) -> tuple[list[int], Tier]:
    """The first group of those that reach farthest, and how far."""
    counts = count_by_tier(groups, cluster)
    widest = max((tier for tier in TIERS if counts[tier]), key=TIERS.index)
    first = next(
        first
        for first in groups.first_ranks()
        if tier_between(cluster, first, first + groups.span) is widest
    )
    return groups.ranks_from(first), widest
