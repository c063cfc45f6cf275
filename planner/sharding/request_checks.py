"""Checks of a resolved spec, each of which names the field at fault and what would do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from planner.documents import LARGEST_VALUE
from planner.errors import SpecError
from planner.sharding.folding import layer_operators
from planner.sharding.operators.registry import rules_of
from planner.sharding.operators.rule import Rule
from planner.sharding.restrictions import Names
from planner.sharding.settings import joules_per_flop, rule_options
from planner.sharding.spec import ShardingSpec
from planner.sharding.stages import check_stages
from planner.sharding.strategies import strategies_of

Path = tuple[str | int, ...]
Rules = Sequence[Sequence[Rule]]

LISTED = 40
"""Operators that a message lists at most."""
LONGEST_SHOWN = 80


def check_spec(spec: ShardingSpec) -> None:
    """Raises `SpecError` where a spec cannot be solved as it is.

    The shapes of all operators are looked at, so that no solve finds fault with them later.
    """
    check_stages(spec.graph, spec.stages)
    options = rule_options(spec)
    rules = [rules_of(operator, spec.graph, options) for operator in spec.graph.operators]
    _check_rates(spec)
    _check_terms(spec, rules)
    _check_names(spec, rules)


def _check_rates(spec: ShardingSpec) -> None:
    gpu, precision = spec.devices.cluster.gpu, spec.training.precision
    if gpu.peak_flop_per_s(precision) is None:
        raise SpecError(
            ("training", "precision"),
            f"{gpu.name} has no {precision} rate.",
            f"Choose another precision or give the GPU's {precision}_flop_per_s.",
        )
    if spec.terms.energy and gpu.watts is None:
        raise SpecError(
            ("objective", "energy"),
            f"needs the power of {gpu.name}.",
            "Give the GPU's `watts`.",
        )


def _check_terms(spec: ShardingSpec, rules: Rules) -> None:
    """What the weights make of all the work, done by one device, stays a whole number that any
    JSON reader keeps."""
    graph = spec.graph
    folded, layers = layer_operators(graph), graph.repeat.count if graph.repeat else 1
    flops = spec.training.micro_batches * sum(
        (layers if v in folded else 1) * max(rule.flops + rule.backward_flops for rule in own)
        for v, own in enumerate(rules)
    )
    weighed = (
        ("computation_imbalance", spec.terms.computation_imbalance, float(flops)),
        ("energy", spec.terms.energy, flops * joules_per_flop(spec)),
    )
    for name, weight, size in weighed:
        if weight * size > LARGEST_VALUE:
            raise SpecError(
                ("objective", name),
                f"{weight:g} makes the whole graph's work worth {weight * size:.3g} bytes, more "
                "than can be added up exactly.",
                f"Give at most {LARGEST_VALUE / size:.3g}.",
            )


def _check_names(spec: ShardingSpec, rules: Rules) -> None:
    """Pins, prohibitions and questions name operators and strategies that there are."""
    names = Names(spec.graph, spec.options.exact)
    clashing = names.clashing()
    if clashing is not None:
        raise SpecError(
            ("graph",),
            f"{_shown(clashing)} looks like a name in a layer that is written out.",
            "Rename it, or leave out `solver.exact`.",
        )
    devices = spec.devices.count // spec.stages
    for mention in _mentions(spec):
        _check_operator(spec, names, mention)
        if mention.strategy is None:
            continue
        name = mention.operator
        own = rules[spec.graph.number_of[names.posted(name)]]
        known = [strategy.name for strategy in strategies_of(own, devices)]
        if mention.strategy not in known:
            raise SpecError(
                mention.strategy_path,
                f"{name} has no strategy {_shown(mention.strategy)} on {devices} devices.",
                f"Its strategies: {', '.join(known)}.",
            )
        if mention.restricts:
            _check_any_left(spec, names, name, known)


class _Mention(NamedTuple):
    """Somewhere an operator and one of its strategies are named, or none of them."""

    operator: str
    strategy: str | None
    operator_path: Path
    strategy_path: Path
    restricts: bool


def _mentions(spec: ShardingSpec) -> Iterator[_Mention]:
    for name, strategy in spec.pinned.items():
        path = ("pin", name[:LONGEST_SHOWN])
        yield _Mention(name, strategy, path, path, restricts=True)
    for name, strategies in spec.forbidden.items():
        path = ("forbid", name[:LONGEST_SHOWN])
        for forbidden in strategies or (None,):
            yield _Mention(name, forbidden, path, path, restricts=True)
    for number, question in enumerate(spec.questions):
        yield _Mention(
            question.operator,
            question.strategy,
            ("explain", number, "operator"),
            ("explain", number, "strategy"),
            restricts=False,
        )


def _check_operator(spec: ShardingSpec, names: Names, mention: _Mention) -> None:
    name = mention.operator
    if not names.is_known(name):
        raise SpecError(
            mention.operator_path,
            f"{_shown(name)} is not an operator of the graph.",
            f"{_nearest(name, spec.graph.number_of)}Its operators: {_listed(spec)}.",
        )
    if spec.stages > 1 and names.posted(name) != name:
        raise SpecError(
            mention.operator_path,
            "names a single layer, and each stage numbers its own.",
            f"Name all layers' operator: {names.posted(name)}.",
        )


def _check_any_left(spec: ShardingSpec, names: Names, name: str, known: Sequence[str]) -> None:
    posted = names.posted(name)
    pinned = spec.pinned.get(name, spec.pinned.get(posted))
    forbidden = {*spec.forbidden.get(name, ()), *spec.forbidden.get(posted, ())}
    if pinned in forbidden or not set(known) - forbidden:
        raise SpecError(
            ("forbid", name if name in spec.forbidden else posted),
            f"leaves {name} no strategy{f' but the pinned {pinned}' if pinned else ''}.",
            "Forbid fewer of them, or pin another one." if pinned else "Forbid fewer of them.",
        )


def _shown(name: str) -> str:
    return repr(name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}…")


def _listed(spec: ShardingSpec) -> str:
    names = list(spec.graph.number_of)
    return ", ".join([*names[:LISTED], *(["…"] if len(names) > LISTED else [])])


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known)[:2000], n=1)
    return f"Did you mean {near[0]}? " if near else ""
