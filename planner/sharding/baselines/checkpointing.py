"""Least time under a memory budget with activation checkpointing, Colossal-Auto's objective."""

from __future__ import annotations

from dataclasses import dataclass

from planner.progress import StopCheck, watched
from planner.sharding import times
from planner.sharding.baselines.baseline import Baseline
from planner.sharding.baselines.optimum import find_best
from planner.sharding.build import Formulation
from planner.sharding.instance import Edge, Instance, OperatorChoice, StrategyCost
from planner.sharding.options import SolveOptions
from planner.sharding.planning import Budget

NS_PER_S = 1e9
BETWEEN_CHECKS = 50
"""Operators or edges: a tenth of a second where 64 devices share the work."""

NAME = "least time with checkpointing (Colossal-Auto)"
MODELLED = (
    "The plan of least computation and communication time within the devices' memory, in which "
    "each operator may drop what it keeps for the backward and compute it again: both at once in "
    "one ILP (Liu et al. 2023 solve sharding first and checkpointing second)."
)
NOT_MODELLED = (
    "Checkpoints of whole chains of operators, whose inside is never kept together; Colossal-AI's "
    "own cost units, which add FLOPs to bytes."
)


@dataclass(frozen=True, slots=True)
class _Variant:
    strategy: int
    is_repeated: bool
    saved_bytes: int
    repeated_s: float


def least_time(
    timed: Formulation,
    precision: str,
    limit_bytes: int | None,
    options: SolveOptions,
    budget: Budget,
) -> Baseline:
    """`timed` has its communication in time, as bytes on the fastest link.

    Raises `Interrupted` if told to stop before there is an ILP.
    """
    numbers = watched(range(len(timed.strategies)), budget.should_stop, BETWEEN_CHECKS)
    variants = [_variants(timed, number, precision) for number in numbers]
    instance = _instance(timed, variants, precision, limit_bytes, budget.should_stop)
    best = find_best(instance, instance, options, budget)
    if best.choice is None:
        return Baseline(NAME, MODELLED, NOT_MODELLED, timed, None, best.reason)
    chosen = [own[number] for own, number in zip(variants, best.choice, strict=True)]
    return Baseline(
        NAME,
        MODELLED,
        NOT_MODELLED,
        timed,
        tuple(variant.strategy for variant in chosen),
        saved_bytes=sum(variant.saved_bytes for variant in chosen),
        repeated_s=sum(variant.repeated_s for variant in chosen),
        is_proven=best.is_proven,
    )


def _variants(timed: Formulation, number: int, precision: str) -> list[_Variant]:
    """Each strategy as it is and, where it keeps something, with that computed again."""
    operator = timed.graph.operators[number]
    settings, count = timed.settings, timed.times[number]
    found = []
    for place, strategy in enumerate(timed.strategies[number]):
        found.append(_Variant(place, False, 0, 0.0))
        kept = times.kept_bytes(timed, number, strategy)
        if kept and operator.kind != "input":
            again_s = times.forward_s(timed, operator, strategy, precision)
            found.append(
                _Variant(
                    place,
                    True,
                    count * settings.micro_batches_in_flight * kept,
                    count * settings.micro_batches * again_s,
                )
            )
    return found


def _instance(
    timed: Formulation,
    variants: list[list[_Variant]],
    precision: str,
    limit_bytes: int | None,
    should_stop: StopCheck,
) -> Instance:
    """Times in ns take the places of bytes."""
    plain = timed.instance(1.0, limit_bytes)
    settings = timed.settings
    ns_per_byte = NS_PER_S / settings.devices.cluster.link_bytes_per_s
    operators = []
    for number, operator in enumerate(plain.operators):
        strategies = []
        for variant in variants[number]:
            cost = operator.strategies[variant.strategy]
            strategy = timed.strategies[number][variant.strategy]
            work_s = times.operator_s(timed, timed.graph.operators[number], strategy, precision)
            busy_s = timed.times[number] * settings.micro_batches * work_s + variant.repeated_s
            strategies.append(
                StrategyCost(
                    f"{cost.name}{' again' if variant.is_repeated else ''}",
                    round(busy_s * NS_PER_S),
                    round(cost.communication_bytes * ns_per_byte),
                    cost.memory_bytes - variant.saved_bytes,
                )
            )
        operators.append(OperatorChoice(operator.name, tuple(strategies)))
    edges = tuple(
        Edge(
            edge.source,
            edge.target,
            tuple(
                tuple(
                    round(edge.resharding_bytes[a.strategy][b.strategy] * ns_per_byte)
                    for b in variants[edge.target]
                )
                for a in variants[edge.source]
            ),
        )
        for edge in watched(plain.edges, should_stop, BETWEEN_CHECKS)
    )
    return Instance(tuple(operators), edges, 1.0, limit_bytes)
