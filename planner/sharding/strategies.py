"""All ways to split an operator: data x row x column = devices, as far as its shapes allow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from planner.sharding.layout import Layout
from planner.sharding.operators.rule import Degrees, Rule, Split


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to split one operator over all devices."""

    degrees: Degrees
    rule: Rule
    spare: int = 1

    @property
    def name(self) -> str:
        """Such as ``d2-r1-c2``; with the rule's suffix, and ``x2`` where two devices repeat."""
        data, row, column = self.degrees
        parts = [f"d{data}-r{row}-c{column}"]
        if self.rule.suffix:
            parts.append(self.rule.suffix)
        if self.spare > 1:
            parts.append(f"x{self.spare}")
        return "-".join(parts)

    def blocks(self, split: Split) -> int:
        """Into how many different blocks a tensor is split."""
        count = 1
        for degree, dimension in zip(self.degrees, split, strict=True):
            count *= 1 if dimension is None else degree
        return count

    def layout(self, split: Split) -> Layout:
        """Where a tensor lies that is split this way."""
        return Layout(self.degrees, split, self.spare)


@lru_cache
def factorisations(devices: int) -> tuple[Degrees, ...]:
    """Every data x row x column = devices, in a fixed order: C(e+2, 2) per prime power p^e."""
    return tuple(
        Degrees(data, row, devices // data // row)
        for data in _divisors(devices)
        for row in _divisors(devices // data)
    )


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def strategies_of(rules: Sequence[Rule], devices: int) -> tuple[Strategy, ...]:
    """The strategies of an operator with these rules, at least one.

    Where no factorisation of all devices fits the shapes, the largest part of them that has one
    shares the work and the rest repeats it.
    """
    for spare in _divisors(devices):
        found = tuple(_allowed(rules, devices // spare, spare))
        if found:
            return found
    raise AssertionError("one device alone needs no splitting")


def _allowed(rules: Sequence[Rule], devices: int, spare: int) -> Iterator[Strategy]:
    for rule in rules:
        for degrees in factorisations(devices):
            # Without row and column devices a second rule says the same as the first.
            if rule.suffix and degrees.row == degrees.column == 1:
                continue
            if why_not(rule, degrees) is None:
                yield Strategy(degrees, rule, spare)


def why_not(rule: Rule, degrees: Degrees) -> str | None:
    """Why the shapes do not allow these degrees; None if they do."""
    for role, degree, units, what in zip(
        ("data", "row", "column"), degrees, rule.units, rule.limited_by, strict=True
    ):
        if units is not None and units % degree:
            return f"{role} {degree} does not divide the {what} ({units})"
    for joint in rule.joint_units:
        together = math.prod(
            degree for degree, own in zip(degrees, joint.roles, strict=True) if own
        )
        if joint.units % together:
            return f"{together} devices do not divide the {joint.what} ({joint.units})"
    return None
