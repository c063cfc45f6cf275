"""One training at other degrees of parallelism, the rest as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from planner.cost.build import CostModel
from planner.cost.degrees import tensor_degrees
from planner.cost.footprint import RankFootprint
from planner.cost.step import Step, step_of
from planner.cost.training import read_training
from planner.errors import SpecError
from planner.estimates.ranks import estimated_placement, rank_footprints, tightest
from planner.estimates.step_time.parts import step_parts

LARGEST_GROWTH = 8
"""Up to so many times the cluster's GPUs are looked at."""


class Kind(StrEnum):
    """A kind of parallelism that is scaled."""

    TENSOR = "tensor"
    PIPELINE = "pipeline"
    DATA = "data"


@dataclass(frozen=True, slots=True)
class Point:
    """The training at one degree: as resolved, its step and its fullest rank."""

    degree: int
    costs: CostModel
    step: Step
    memory: RankFootprint

    @property
    def gpus(self) -> int:
        """GPUs in use."""
        return self.costs.training.degrees.gpus

    @property
    def tokens_per_s(self) -> float:
        """Throughput of all GPUs."""
        training = self.costs.training
        tokens = training.global_batch_size * training.sequence
        return tokens / (self.step.time.total_ns / 1e9)

    @property
    def computed_ns(self) -> int:
        """What the busiest rank computes."""
        return self.step.time.compute_ns

    @property
    def parts_ns(self) -> dict[str, int]:
        """What the step is made of."""
        return step_parts(self.costs, self.step)


def largest_degree(costs: CostModel, kind: Kind) -> int:
    """A tensor group lies in a node and divides the model's sizes; a pipeline rank needs a layer
    per chunk, a replica a micro-batch."""
    training = costs.training
    if kind is Kind.TENSOR:
        return max(tensor_degrees(costs.model, costs.cluster))
    if kind is Kind.PIPELINE:
        return costs.model.layers // (training.interleaving or 1)
    return training.global_batch_size // training.micro_batch_size


def degrees_to_try(costs: CostModel, kind: Kind) -> list[int]:
    """What the model and a node allow for tensor ranks; else powers of two (pipeline: three halves
    of them too), the present degree and the largest, within `LARGEST_GROWTH`."""
    if kind is Kind.TENSOR:
        return tensor_degrees(costs.model, costs.cluster)
    degrees = costs.training.degrees
    present = getattr(degrees, kind.value)
    room = LARGEST_GROWTH * costs.cluster.gpus * present // degrees.gpus
    most = min(largest_degree(costs, kind), max(present, room))
    powers = [2**power for power in range(most.bit_length())]
    between = [3 * power // 2 for power in powers[1:]] if kind is Kind.PIPELINE else []
    return sorted(d for d in {*powers, *between, most, present} if d <= most)


def point_at(
    costs: CostModel, raw: Mapping[str, Any], kind: Kind, degree: int, *, weak: bool = False
) -> Point:
    """At another degree of one kind, on as many nodes as it takes: with the global batch kept, or
    (`weak`) as many micro-batches per replica as now.

    Raises `SpecError` where the degree does not suit the training.
    """
    training = costs.training
    degrees = replace(training.degrees, **{kind.value: degree})
    changed = {
        name: value
        for name, value in raw.items()
        # Layers per stage belong to the number of stages that they were given for.
        if name not in ("micro_batches", "global_batch_size")
        and (name != "layers_per_stage" or degrees.pipeline == training.degrees.pipeline)
    }
    changed |= {
        "tensor_parallel": degrees.tensor,
        "pipeline_parallel": degrees.pipeline,
        "data_parallel": degrees.data,
    }
    if weak:
        changed["micro_batches"] = training.micro_batches
    else:
        changed["global_batch_size"] = training.global_batch_size
    nodes = -(-degrees.gpus // costs.cluster.gpus_per_node)
    cluster = replace(costs.cluster, nodes=nodes)
    resolved = CostModel.of(costs.model, cluster, read_training(changed, costs.model, cluster))
    placement = estimated_placement(resolved)
    step = step_of(resolved, placement.chunks, resolved.layers_per_stage(placement))
    return Point(degree, resolved, step, tightest(rank_footprints(resolved)))


@dataclass(frozen=True, slots=True)
class Curve:
    """The degrees of one kind that suit the training, and why others do not."""

    points: list[Point]
    refused: list[dict[str, Any]]


def curve_of(costs: CostModel, raw: Mapping[str, Any], kind: Kind, *, weak: bool = False) -> Curve:
    """All degrees to try."""
    points, refused = [], []
    for degree in degrees_to_try(costs, kind):
        try:
            points.append(point_at(costs, raw, kind, degree, weak=weak))
        except SpecError as error:
            refused.append({"degree": degree, "reason": str(error)})
    return Curve(points, refused)
