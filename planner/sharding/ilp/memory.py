"""Plans that need the least memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from planner.sharding.ilp.solve import IlpOptions, IlpResult, solve_instance
from planner.sharding.instance import Instance
from planner.sharding.restrict import restrict


def minimise_memory(instance: Instance, **options: Unpack[IlpOptions]) -> IlpResult:
    """The plan of least objective among those that need least memory, whatever the device has.

    Memory is a sum over operators that no edge has a part in, so its least is the sum of the
    operators' least, and no ILP is needed to find it: the plan's `memory_bytes` is what any plan
    needs. The ILP finds the best among the strategies that need least.
    """
    groups = [[s.memory_bytes for s in operator.strategies] for operator in instance.operators]
    leanest = restrict(
        replace(instance, device_memory_bytes=None),
        [[k for k, size in enumerate(group) if size == min(group)] for group in groups],
    )
    result = solve_instance(leanest.instance, **options)
    if result.plan is None:
        return result
    return replace(result, plan=replace(result.plan, choice=leanest.expand(result.plan.choice)))
