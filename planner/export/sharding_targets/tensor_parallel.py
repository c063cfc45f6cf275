"""Linear layers that all devices share by columns or rows, as tensor-parallel frameworks do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from planner.export.sharding_targets.columns import Parts, Program, kept_columns, module_of
from planner.export.sharding_targets.modules import ShardedGraph, SplitOperator
from planner.sharding.operators.rule import Degrees

Allows = Callable[[SplitOperator, Parts], bool]


@dataclass(frozen=True)
class LinearSplit:
    """`by_rows`, or else by columns. `apart`: each device keeps the columns that it computed, of
    every one of the `parts` of the output, or is given the features that it takes; otherwise the
    output has to be gathered and the input to be split."""

    by_rows: bool
    apart: bool
    parts: Parts = ()


def linear_splits(plan: ShardedGraph, allows: Allows) -> Mapping[str, LinearSplit]:
    """By name, the linear layers of a plan that a framework can split among all devices.

    `allows` says whether it can give each device its columns of these parts. Calls of one module,
    and modules with one weight, can only be split alike.
    """
    shared = _shared(plan)
    found: dict[str, LinearSplit] = {}
    packing = "groups" if plan.is_transformer else None
    program = Program(plan.graph, plan.devices, packing, plan.fixed_heads)
    for layer in dict.fromkeys(own.layer for own in plan.operators):
        here = {own.operator.name: own for own in shared if own.layer in (layer, None)}
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


def _shared(plan: ShardedGraph) -> list[SplitOperator]:
    """The linear layers that all devices share, in all their calls alike, and whose weights are
    their own."""
    if plan.devices == 1:
        return []
    degrees: defaultdict[tuple[str | None, str], set[Degrees]] = defaultdict(set)
    for own in plan.operators:
        degrees[own.layer, module_of(own.operator.name)].add(own.strategy.degrees)
    tied = _with_others_weights(plan)
    return [
        own
        for own in plan.modules
        if own.operator.kind == "linear"
        and plan.devices in (own.strategy.degrees.row, own.strategy.degrees.column)
        and len(degrees[own.layer, module_of(own.operator.name)]) == 1
        and module_of(own.operator.name) not in tied
    ]


def _with_others_weights(plan: ShardedGraph) -> frozenset[str]:
    """Modules that have a weight in common with another one."""
    found: set[str] = set()
    for operator in plan.graph.operators:
        for parameter in operator.parameters:
            pair = {module_of(operator.name), module_of(parameter.tied_to or operator.name)}
            found |= pair if len(pair) > 1 else set()
    return frozenset(found)
