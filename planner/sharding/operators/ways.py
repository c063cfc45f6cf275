"""The usual ways to split an activation, which most kinds without weights share."""

from __future__ import annotations

from dataclasses import dataclass

from planner.sharding.graph import Operator
from planner.sharding.operators.checks import path_of, require, whole_attribute
from planner.sharding.operators.rule import Roles, RuleOptions, Split

SEQUENCE = 1
"""The dimension of [batch, sequence, features] that sequence parallelism splits."""

SEQUENCE_PARALLEL = "sp"
"""The suffix of rules with sequence parallelism."""


@dataclass(frozen=True, slots=True)
class Way:
    """How the roles split a tensor, and what a rule that does so says about it."""

    split: Split
    units: tuple[int | None, int | None, int | None]
    limited_by: tuple[str, str, str]
    suffix: str = ""

    @property
    def roles(self) -> Roles:
        """The roles that split the tensor."""
        return roles_that_split(self.split)


def roles_that_split(split: Split) -> Roles:
    """The roles that split a tensor at all."""
    return Roles(*(dimension is not None for dimension in split))


def has_sequence(shape: tuple[int, ...]) -> bool:
    """Whether a shape is taken for [batch, sequence, features]."""
    return len(shape) == 3


def feature_dimension(operator: Operator, shape: tuple[int, ...]) -> int | None:
    """The dimension that column splits; None where there is none beside the batch.

    The attribute `column_dimension`, or else the last of up to three dimensions and the second of
    more: heads of [batch, heads, sequence, size], channels of [batch, channels, height, width].
    """
    if "column_dimension" in operator.attributes:
        dimension = whole_attribute(operator, "column_dimension", 1)
        require(
            dimension < len(shape),
            path_of(operator, "attributes", "column_dimension"),
            f"there is no dimension {dimension} in {list(shape)}.",
            "They are numbered from 0, and 0 is the batch.",
        )
        return dimension
    if len(shape) < 2:
        return None
    return len(shape) - 1 if len(shape) <= 3 else 1


def usual_ways(shape: tuple[int, ...], column: int | None, options: RuleOptions) -> tuple[Way, ...]:
    """Data splits the batch, column the dimension `column`, and row nothing.

    With sequence parallelism, for [batch, sequence, features], a second way in which row splits
    the sequence.
    """
    batch, features = (None if n is None else shape[n] for n in (0 if shape else None, column))
    data = 0 if shape else None
    ways = [
        Way(
            Split(data=data, column=column),
            (batch, None, features),
            ("batch", "copies", "features"),
        )
    ]
    if options.sequence_parallel and has_sequence(shape) and column != SEQUENCE:
        ways.append(
            Way(
                Split(data=data, row=SEQUENCE, column=column),
                (batch, shape[SEQUENCE], features),
                ("batch", "sequence", "features"),
                SEQUENCE_PARALLEL,
            )
        )
    return tuple(ways)
