"""Which layers each pipeline stage gets, by the time and the least memory of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import inf

from planner.sharding.build import Formulation, formulate
from planner.sharding.folding import layer_operators
from planner.sharding.least_memory import least_memory, least_of_operators
from planner.sharding.partition import partition
from planner.sharding.restrictions import Restrictions
from planner.sharding.settings import cost_settings, rule_options
from planner.sharding.spec import ShardingSpec
from planner.sharding.stages import StageGraph, divide, in_flight, part_of
from planner.sharding.times import operator_s


@dataclass(frozen=True, slots=True)
class _Loads:
    """Seconds and least bytes of a stage: of one of its layers, and of what it has beside them.

    A single layer keeps less than one of several, since no other reads its output.
    """

    layer_s: float
    other_s: float
    single_bytes: int
    layer_bytes: int
    other_bytes: int

    def seconds(self, layers: int) -> float:
        """Of the stage with so many layers."""
        return self.other_s + layers * self.layer_s

    def least_bytes(self, layers: int) -> int:
        """Of the stage with so many layers."""
        return self.single_bytes if layers == 1 else self.other_bytes + layers * self.layer_bytes


def divide_among_stages(spec: ShardingSpec, limits: Sequence[int | None]) -> tuple[StageGraph, ...]:
    """Balanced by time, and so that each stage can keep what it gets if any division can.

    A layer's time is that of its operators by the strategies that take least, its memory the
    least that any strategies keep. `limits` has the bytes of a device per stage.
    """
    repeat = spec.graph.repeat
    layers = repeat.count if repeat else 1
    micro_batches = spec.training.micro_batches
    if spec.stages == 1:
        return divide(spec.graph, [layers], micro_batches)

    @cache
    def loads_of(first: bool, last: bool, held: int) -> _Loads:
        return _loads(spec, first=first, last=last, held=held)

    def loads(stage: int) -> _Loads:
        held = in_flight(stage, spec.stages, micro_batches)
        return loads_of(stage == 0, stage == spec.stages - 1, held)

    def over_limit(stage: int, count: int) -> float:
        limit = limits[stage]
        return -inf if limit is None else loads(stage).least_bytes(count) - limit

    counts = partition(layers, spec.stages, lambda s, n: loads(s).seconds(n), over_limit)
    return divide(spec.graph, counts, micro_batches)


def _loads(spec: ShardingSpec, *, first: bool, last: bool, held: int) -> _Loads:
    single, double = (
        formulate(
            part_of(spec.graph, count, first=first, last=last),
            cost_settings(spec, micro_batches_in_flight=held),
            rule_options(spec),
            Restrictions(spec).allows,
            with_passages=False,
        )
        for count in (1, 2)
    )
    layer = layer_operators(single.graph)
    least = [own.total_bytes for own in least_of_operators(double)]
    seconds = _seconds(spec, single)
    return _Loads(
        layer_s=sum(own for v, own in enumerate(seconds) if v in layer),
        other_s=sum(own for v, own in enumerate(seconds) if v not in layer),
        single_bytes=least_memory(single).total_bytes,
        layer_bytes=sum(own for v, own in enumerate(least) if v in layer) // 2,
        other_bytes=sum(own for v, own in enumerate(least) if v not in layer),
    )


def _seconds(spec: ShardingSpec, formulation: Formulation) -> list[float]:
    """Forward and backward of each operator, by the strategy that takes least."""
    precision = spec.training.precision
    return [
        min(operator_s(formulation, operator, strategy, precision) for strategy in own)
        for operator, own in zip(formulation.graph.operators, formulation.strategies, strict=True)
    ]
