"""Least communication, the objective of Alpa's inner optimisation."""

from __future__ import annotations

from dataclasses import replace

from planner.sharding.baselines.baseline import Baseline
from planner.sharding.baselines.optimum import find_best
from planner.sharding.build import Formulation
from planner.sharding.instance import Instance, OperatorChoice
from planner.sharding.options import SolveOptions
from planner.sharding.planning import Budget

NAME = "least communication (Alpa)"
MODELLED = (
    "The plan that sends least, own collectives and resharding together, within the devices' "
    "memory: the objective of Alpa's intra-operator ILP (Zheng et al. 2022, section 4), whose "
    "computation term is the same for all plans that repeat no work."
)
NOT_MODELLED = (
    "Alpa's logical meshes with a bandwidth per axis, its fusion of operators, its stages, its "
    "memory by liveness."
)


def least_communication(
    formulation: Formulation, limit_bytes: int | None, options: SolveOptions, budget: Budget
) -> Baseline:
    """Among plans that send equally little, the least redundant where elimination finds it."""
    instance = formulation.instance(1.0, limit_bytes)
    most_redundant = sum(
        max(strategy.redundant_bytes for strategy in operator.strategies)
        for operator in instance.operators
    )
    # Every byte sent comes before all redundancy.
    weighed = replace(instance, alpha=2.0 ** most_redundant.bit_length())
    best = find_best(weighed, without_redundancy(instance), options, budget)
    return Baseline(
        NAME,
        MODELLED,
        NOT_MODELLED,
        formulation,
        best.choice,
        best.reason,
        is_proven=best.is_proven if best.choice is not None else None,
    )


def without_redundancy(instance: Instance) -> Instance:
    """The same instance in which only what is sent counts."""
    return replace(
        instance,
        operators=tuple(
            OperatorChoice(
                operator.name,
                tuple(replace(strategy, redundant_bytes=0) for strategy in operator.strategies),
            )
            for operator in instance.operators
        ),
    )
