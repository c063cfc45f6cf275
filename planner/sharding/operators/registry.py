"""All kinds of operators, and the rules of an operator whatever its kind."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from planner.errors import SpecError
from planner.sharding.graph import Graph, Operator
from planner.sharding.operators import (
    attention,
    conv,
    cross_entropy,
    elementwise,
    embedding,
    experts,
    fallback,
    glu,
    heads,
    linear,
    matmul,
    norm,
    reshape,
    router,
    softmax,
    source,
)
from planner.sharding.operators.checks import path_of
from planner.sharding.operators.rule import Count, Kind, Rule, RuleOptions

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        source.KIND,
        linear.KIND,
        matmul.KIND,
        attention.KIND,
        softmax.KIND,
        *norm.KINDS,
        *elementwise.KINDS,
        embedding.KIND,
        cross_entropy.KIND,
        *conv.KINDS,
        *reshape.KINDS,
        *heads.KINDS,
        glu.KIND,
        router.KIND,
        experts.KIND,
    )
}


def rules_of(operator: Operator, graph: Graph, options: RuleOptions) -> tuple[Rule, ...]:
    """The ways to split an operator, at least one.

    An unknown kind falls back to splitting the batch or repeating everything, with a warning.
    Raises `SpecError` where a known kind has unknown attributes, the wrong number of tensors, or
    shapes that do not fit.
    """
    kind = KINDS.get(operator.kind)
    if kind is None:
        return fallback.make_rules(operator, graph, options)
    for attribute in operator.attributes:
        if attribute not in kind.attributes:
            raise _unknown_attribute(operator, attribute, kind)
    _check_count(operator, "inputs", len(operator.inputs), kind.inputs)
    _check_count(operator, "outputs", len(operator.outputs), kind.outputs)
    _check_count(operator, "parameters", len(operator.parameters), kind.parameters)
    return kind.make_rules(operator, graph, options)


def _unknown_attribute(operator: Operator, attribute: str, kind: Kind) -> SpecError:
    near = difflib.get_close_matches(attribute, kind.attributes, n=1)
    known = ", ".join(sorted(kind.attributes))
    return SpecError(
        path_of(operator, "attributes", attribute),
        f"is not an attribute of the kind {kind.name!r}.",
        (f"Did you mean {near[0]!r}? " if near else "")
        + (f"Known: {known}." if known else "It has none; remove it."),
    )


def _check_count(operator: Operator, field: str, found: int, count: Count) -> None:
    least, most = count
    if found >= least and (most is None or found <= most):
        return
    wanted = f"{least}" if least == most else f"{least} to {most}" if most else f"{least} or more"
    raise SpecError(
        path_of(operator, field),
        f"are {found}, but the kind {operator.kind!r} has {wanted}.",
        f"Give {wanted}, or a `kind` of another name, which is split by the batch or not at all.",
    )
