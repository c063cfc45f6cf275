"""Least communication, the objective of Alpa's inner optimisation."""

from __future__ import annotations

import time
from dataclasses import replace

from planner.sharding.baselines.baseline import Baseline
from planner.sharding.build import Formulation
from planner.sharding.elimination import TooLarge, find_optimum
from planner.sharding.ilp.solve import solve_instance
from planner.sharding.instance import Instance, OperatorChoice
from planner.sharding.options import SolveOptions
from planner.sharding.planning import Budget
from planner.sharding.reduce import reduce_instance

NAME = "least communication (Alpa)"
MOST_ENTRIES, LONGEST_ELIMINATION_S = 10_000_000, 1.0
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
    choice = _eliminated(instance, budget)
    if choice is not None:
        return Baseline(NAME, MODELLED, NOT_MODELLED, formulation, choice, is_proven=True)
    reduced = reduce_instance(without_redundancy(instance))
    result = solve_instance(
        reduced.instance,
        engine=options.engine,
        time_limit_s=budget.seconds_left(),
        mip_gap=options.mip_gap,
        threads=options.threads,
        should_stop=budget.should_stop,
        on_log=budget.log,
    )
    if result.plan is None:
        reason = f"no such plan: {result.status.replace('_', ' ')}"
        return Baseline(NAME, MODELLED, NOT_MODELLED, formulation, None, reason)
    return Baseline(
        NAME,
        MODELLED,
        NOT_MODELLED,
        formulation,
        reduced.expand(result.plan.choice),
        is_proven=result.status == "optimal",
    )


def _eliminated(instance: Instance, budget: Budget) -> tuple[int, ...] | None:
    """By a weight that puts every byte sent before all redundancy; None if that takes too long or
    nothing fits."""
    most_redundant = sum(
        max(strategy.redundant_bytes for strategy in operator.strategies)
        for operator in instance.operators
    )
    give_up = time.monotonic() + LONGEST_ELIMINATION_S
    try:
        plan = find_optimum(
            replace(instance, alpha=2.0 ** most_redundant.bit_length()),
            most_entries=MOST_ENTRIES,
            should_stop=lambda: time.monotonic() > give_up or budget.should_stop(),
        )
    except TooLarge:
        return None
    return None if plan is None else plan.choice


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
