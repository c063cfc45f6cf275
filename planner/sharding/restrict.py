"""Instances with fewer strategies or operators, and how to get back to the original numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from planner.sharding.instance import Instance

GONE = -1
"""Stands for a strategy that no plan may contain any more."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """A reduced instance and how its plans and those of the original belong together.

    `members`: per operator of `instance` the original operators that it stands for, each with its
    original strategy by strategy of `instance`. `position`: per operator of `instance`, by
    original strategy of the first of its members, the strategy of `instance` that is at least as
    good, or `GONE`. `original_operators` counts the operators before.
    """

    instance: Instance
    members: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]
    position: tuple[tuple[int, ...], ...]
    original_operators: int

    def expand(self, choice: Sequence[int]) -> tuple[int, ...]:
        """The plan of the original instance that a plan of the reduced one stands for, with the
        same objective and the same memory."""
        expanded = [GONE] * self.original_operators
        for members, strategy in zip(self.members, choice, strict=True):
            for operator, original in members:
                expanded[operator] = original[strategy]
        return tuple(expanded)

    def contract(self, choice: Sequence[int]) -> tuple[int, ...] | None:
        """A plan of the reduced instance that costs no more, nor takes more memory, than the given
        plan of the original; None if that contains a strategy that is not allowed."""
        contracted = tuple(
            position[choice[members[0][0]]]
            for members, position in zip(self.members, self.position, strict=True)
        )
        return None if GONE in contracted else contracted


def unreduced(instance: Instance) -> Reduced:
    """The instance as it is."""
    strategies = tuple(tuple(range(len(operator.strategies))) for operator in instance.operators)
    members = tuple(((number, own),) for number, own in enumerate(strategies))
    return Reduced(instance, members, strategies, len(strategies))


def restrict(instance: Instance, allowed: Sequence[Iterable[int]]) -> Reduced:
    """The instance with only the allowed strategies of each operator, which keep their order.

    That is how strategies are pinned and forbidden. Raises ValueError if an operator is left
    without any.
    """
    kept = [sorted(set(numbers)) for numbers in allowed]
    for operator, numbers in zip(instance.operators, kept, strict=True):
        if not numbers:
            raise ValueError(f"operator {operator.name!r} is left without a strategy")
    return Reduced(
        instance=replace(
            instance,
            operators=tuple(
                replace(operator, strategies=tuple(operator.strategies[k] for k in numbers))
                for operator, numbers in zip(instance.operators, kept, strict=True)
            ),
            edges=tuple(
                replace(
                    edge,
                    resharding_bytes=tuple(
                        tuple(edge.resharding_bytes[i][j] for j in kept[edge.target])
                        for i in kept[edge.source]
                    ),
                )
                for edge in instance.edges
            ),
        ),
        members=tuple(((number, tuple(numbers)),) for number, numbers in enumerate(kept)),
        position=tuple(
            tuple(
                numbers.index(k) if k in numbers else GONE for k in range(len(operator.strategies))
            )
            for operator, numbers in zip(instance.operators, kept, strict=True)
        ),
        original_operators=len(instance.operators),
    )


def least_memory_bytes(instance: Instance) -> int:
    """The least memory that any plan needs on a device: the sum of the operators' least."""
    return sum(
        min(strategy.memory_bytes for strategy in operator.strategies)
        for operator in instance.operators
    )


def most_memory_bytes(instance: Instance) -> int:
    """The most memory that any plan takes on a device."""
    return sum(
        max(strategy.memory_bytes for strategy in operator.strategies)
        for operator in instance.operators
    )
