"""Linear layers that all devices share by columns or rows, as tensor-parallel frameworks do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from planner.export.sharding_targets.columns import Parts, Program, kept_columns, module_of
from planner.export.sharding_targets.modules import ShardedGraph, SplitOperator

Allows = Callable[[SplitOperator, Parts], bool]


@dataclass(frozen=True)
class LinearSplit:
    """`by_rows`, or else by columns. `apart`: each device keeps the columns that it computed, of
    every one of the `parts` of the output, or is given the features that it takes; otherwise the
    output has to be gathered and the input to be split."""

    by_rows: bool
    apart: bool
    parts: Parts = ()


def linear_splits(
    plan: ShardedGraph, allows: Allows, *, fixed_heads: bool = False
) -> Mapping[str, LinearSplit]:
    """By name, the linear layers of a plan that a framework can split among all devices.

    `allows` says whether it can give each device its columns of these parts. Calls of one module,
    and modules with one weight, can only be split alike.
    """
    shared = {own.name: own for own in plan.modules if _is_shared(plan, own)}
    found: dict[str, LinearSplit] = {}
    program = Program(
        plan.graph, plan.devices, "groups" if plan.is_transformer else None, fixed_heads
    )
    for layer in dict.fromkeys(own.layer for own in plan.operators):
        here = {own.operator.name: own for own in shared.values() if own.layer in (layer, None)}
        columns = {name for name, own in here.items() if own.strategy.degrees.column > 1}
        kept = kept_columns(program, columns, here.keys() - columns, _by_name(allows, here))
        for name, own in here.items():
            apart = name in kept.kept or name in kept.fed
            before = found.get(own.name)
            found[own.name] = LinearSplit(
                name not in columns,
                apart and (before is None or before.apart),
                kept.kept.get(name, ()),
            )
    return found


def _by_name(allows: Allows, known: Mapping[str, SplitOperator]) -> Callable[[str, Parts], bool]:
    return lambda name, parts: allows(known[name], parts)


def _is_shared(plan: ShardedGraph, own: SplitOperator) -> bool:
    """Whether all devices share a linear layer, in all its calls alike, and its weight is its
    own."""
    if own.operator.kind != "linear" or plan.devices == 1:
        return False
    degrees, name = own.strategy.degrees, module_of(own.operator.name)
    calls = [other for other in plan.operators if module_of(other.operator.name) == name]
    return (
        plan.devices in (degrees.row, degrees.column)
        and all(o.strategy.degrees == degrees for o in calls if o.layer == own.layer)
        and name not in _with_others_weights(plan)
    )


def _with_others_weights(plan: ShardedGraph) -> frozenset[str]:
    """Modules that have a weight in common with another one."""
    found: set[str] = set()
    for operator in plan.graph.operators:
        for parameter in operator.parameters:
            pair = {module_of(operator.name), module_of(parameter.tied_to or operator.name)}
            found |= pair if len(pair) > 1 else set()
    return frozenset(found)
