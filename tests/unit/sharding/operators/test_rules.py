"""Every kind's rules: simulated devices compute what one device would, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.sharding.operators.registry import rules_of
from planner.sharding.operators.rule import Degrees, Rule, RuleOptions
from tests.unit.sharding.operators.cases import Case
from tests.unit.sharding.operators.mesh import ROLES, count_of
from tests.unit.sharding.operators.programs import (
    attention,
    experts,
    matrices,
    pointwise,
    shapes,
    vocabulary,
)
from tests.unit.sharding.operators.simulation import check

MOST_DEVICES = 16
Maker = Callable[[st.DrawFn, np.random.Generator], Case]
MAKERS: dict[str, Maker] = {
    maker.__name__: maker
    for maker in (
        matrices.linear,
        matrices.matmul,
        matrices.conv,
        attention.attention,
        attention.softmax,
        attention.split_heads,
        attention.merge_heads,
        pointwise.unary,
        pointwise.dropout,
        pointwise.binary,
        pointwise.glu,
        pointwise.norm,
        vocabulary.embedding,
        vocabulary.cross_entropy,
        shapes.reshape,
        shapes.transpose,
        shapes.unknown,
        experts.router,
        experts.experts,
    )
}


def degrees_of(rule: Rule, most: int) -> list[Degrees]:
    """All degrees that the shapes allow, on up to `most` devices; a role that repeats may have
    three devices at most."""
    options = [
        range(1, 4) if units is None else [d for d in range(1, units + 1) if units % d == 0]
        for units in rule.units
    ]
    return [
        degrees
        for data in options[0]
        for row in options[1]
        for column in options[2]
        if math.prod(degrees := Degrees(data, row, column)) <= most
        and all(own.units % count_of(degrees, own.roles) == 0 for own in rule.joint_units)
    ]


def drawn(data: st.DataObject, maker: Maker, most: int) -> Iterator[tuple[Case, Rule, Degrees]]:
    """A case of a kind with each of its rules and degrees for it, of several devices if any."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    case = maker(data.draw, rng)
    for rule in rules_of(case.operator, case.graph, RuleOptions(sequence_parallel=True)):
        *fewest, last = sorted(degrees_of(rule, most), key=math.prod)
        degrees = data.draw(st.sampled_from([*fewest[1:], last]))
        yield case, rule, degrees


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_devices_together_compute_the_whole(maker: Maker, data: st.DataObject) -> None:
    for case, rule, degrees in drawn(data, maker, MOST_DEVICES):
        check(case, rule, degrees)


def changed(rules: tuple[Any, ...], number: int, **fields: Any) -> tuple[Any, ...]:
    """The rules of tensors or parameters with one of them changed."""
    return (*rules[:number], replace(rules[number], **fields), *rules[number + 1 :])


def wrong_rules(rule: Rule, degrees: Degrees) -> Iterator[tuple[str, Rule]]:
    """The rule with one declaration about a role of several devices turned round."""
    sides = (
        ("inputs", "partial_gradient"),
        ("outputs", "partial"),
        ("parameters", "partial_gradient"),
    )
    for side, sums in sides:
        own_rules = getattr(rule, side)
        for number, own in enumerate(own_rules):
            for role, degree in zip(ROLES, degrees, strict=True):
                if degree == 1:
                    continue
                what = f"{side} {number} {role}"
                turned = getattr(own, sums)._replace(
                    **{role: not getattr(getattr(own, sums), role)}
                )
                yield (
                    f"{what} sums",
                    replace(rule, **{side: changed(own_rules, number, **{sums: turned})}),
                )
                if getattr(own.split, role) is not None:
                    whole = own.split._replace(**{role: None})
                    yield (
                        f"{what} split",
                        replace(rule, **{side: changed(own_rules, number, split=whole)}),
                    )
            if getattr(own, "saved", False):
                yield (
                    f"{side} {number} saved",
                    replace(rule, **{side: changed(own_rules, number, saved=False)}),
                )


# What a fallback keeps is a guess, and so is more than this operator needs.
@pytest.mark.parametrize(
    "maker", [m for name, m in MAKERS.items() if name != "unknown"], ids=lambda m: m.__name__
)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_no_declaration_could_be_otherwise(maker: Maker, data: st.DataObject) -> None:
    for case, rule, degrees in drawn(data, maker, 8):
        for what, wrong in wrong_rules(rule, degrees):
            assert not passes(case, wrong, degrees), f"{what} could be otherwise"


def passes(case: Case, rule: Rule, degrees: Degrees) -> bool:
    """Whether the check does; a wrong rule may also have programs meet tensors of wrong shapes."""
    try:
        check(case, rule, degrees)
    except (AssertionError, AttributeError, IndexError, RuntimeWarning, TypeError, ValueError):
        return False
    return True
