"""Operators of given shapes for tests, without values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.sharding.graph import Graph, Operator, Parameter, Tensor
from planner.sharding.operators.registry import rules_of
from planner.sharding.operators.rule import Rule, RuleOptions

Shape = tuple[int, ...]


def operator(
    kind: str,
    inputs: Sequence[Shape],
    outputs: Sequence[Shape],
    parameters: Sequence[Shape] = (),
    dtypes: dict[str, str] | None = None,
    **attributes: Any,
) -> tuple[Operator, Graph]:
    """An operator `v` in a graph of its own; tensors x0, x1, ..., y0, ... are bf16 unless given
    another dtype."""
    shapes = {f"x{number}": shape for number, shape in enumerate(inputs)}
    shapes |= {f"y{number}": shape for number, shape in enumerate(outputs)}
    tensors = {
        name: Tensor(name, shape, (dtypes or {}).get(name, "bf16"))
        for name, shape in shapes.items()
    }
    found = Operator(
        "v",
        kind,
        tuple(f"x{number}" for number in range(len(inputs))),
        tuple(f"y{number}" for number in range(len(outputs))),
        tuple(Parameter(f"w{number}", shape) for number, shape in enumerate(parameters)),
        attributes,
    )
    return found, Graph((found,), tensors)


def rules(*args: Any, sequence_parallel: bool = False, **kwargs: Any) -> tuple[Rule, ...]:
    """The rules of such an operator."""
    return rules_of(*operator(*args, **kwargs), RuleOptions(sequence_parallel))


def rule(*args: Any, **kwargs: Any) -> Rule:
    """Its first rule."""
    return rules(*args, **kwargs)[0]
