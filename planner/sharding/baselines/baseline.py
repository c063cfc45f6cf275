"""What people would do otherwise, on the same graph and under the same cost model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.sharding.build import Formulation
from planner.sharding.operators.rule import Degrees, Rule
from planner.sharding.strategies import why_not


@dataclass(frozen=True, slots=True)
class Baseline:
    """Another way to choose strategies.

    `choice` has one strategy number per operator of `formulation`, which may differ from the
    plan's in its ZeRO stage; None = not applicable, for the `reason` given. `saved_bytes` is what
    recomputation leaves out of the memory, and `repeated_s` the time that it takes. `is_proven`
    says whether an objective of its own was proven to be met; None where there is none. `note` says
    how it was chosen where that is not by its objective alone.
    """

    name: str
    modelled: str
    not_modelled: str
    formulation: Formulation
    choice: tuple[int, ...] | None
    reason: str | None = None
    saved_bytes: int = 0
    repeated_s: float = 0.0
    is_proven: bool | None = None
    note: str | None = None


def pick(formulation: Formulation, wanted: Sequence[str]) -> tuple[int, ...] | str:
    """The numbers of the strategies with these names, one per operator, or why one is missing."""
    choice = []
    for number, name in enumerate(wanted):
        names = [strategy.name for strategy in formulation.strategies[number]]
        if name not in names:
            operator = formulation.graph.operators[number]
            why = _why_not(formulation.strategies[number][0].rule, name)
            return f"{operator.name} ({operator.kind}) cannot be split {name}{why}"
        choice.append(names.index(name))
    return tuple(choice)


def _why_not(rule: Rule, name: str) -> str:
    data, row, column = (int(part[1:]) for part in name.split("-")[:3])
    why = why_not(rule, Degrees(data, row, column))
    return f": {why}" if why else ""
