"""How often the experts of each layer are chosen, as measured by whoever trains the model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from planner.documents import FiniteNumber, spec_error_from
from planner.errors import SpecError

Path = tuple[str | int, ...]
Weight = Annotated[FiniteNumber, Field(ge=0)]
_ROW: TypeAdapter[list[float]] = TypeAdapter(Annotated[list[Weight], Field(fail_fast=True)])

LARGEST_TOTAL = 2**50
"""Of the whole weights of a layer: floats hold all sums of them exactly."""
ROUNDING = 1e-6
"""By how much the share of an expert may exceed what is possible."""
FORM = "Give a list with one number per expert, or a list with one such list per layer."


@dataclass(frozen=True)
class Routing:
    """`weights[layer][expert]` are in proportion to the tokens that choose the expert, whatever
    their unit; each token chooses `experts_per_token` different ones."""

    weights: tuple[tuple[float, ...], ...]
    experts_per_token: int

    @property
    def layers(self) -> int:
        """How many layers have experts."""
        return len(self.weights)

    @property
    def experts(self) -> int:
        """Experts of each layer."""
        return len(self.weights[0])

    def frequencies(self, layer: int) -> tuple[float, ...]:
        """Share of the tokens that choose each expert; their sum is `experts_per_token`."""
        weights = self.weights[layer]
        total = math.fsum(weights)
        return tuple(weight / total * self.experts_per_token for weight in weights)

    @cached_property
    def whole_weights(self) -> tuple[tuple[int, ...], ...]:
        """The weights as the smallest whole numbers in the same proportion, so that sums of them
        are exact. Weights of so many digits that these were huge are rounded to parts of 2^50."""
        known: dict[tuple[float, ...], tuple[int, ...]] = {}
        for weights in self.weights:
            if weights not in known:
                known[weights] = _whole(weights)
        return tuple(known[weights] for weights in self.weights)

    def of_layers(self, layers: Iterable[int]) -> Routing:
        """The same of some layers, such as those of one pipeline stage."""
        return Routing(tuple(self.weights[layer] for layer in layers), self.experts_per_token)


def read_routing_frequency(
    raw: Any,
    experts: int,
    layers: int,
    experts_per_token: int,
    path: Path = ("routing_frequency",),
) -> Routing:
    """Read frequencies or counts of chosen experts, for all layers alike or for each layer.

    Raises `SpecError` below `path` where they are not non-negative numbers, one per expert and
    layer, of which some are above 0, or where an expert gets more tokens than there are.
    """
    if not isinstance(raw, list | tuple):
        raise SpecError(path, "must be a list.", FORM)
    if not any(isinstance(row, list | tuple) for row in raw):
        row = _row(raw, experts, experts_per_token, path)
        return Routing((row,) * layers, experts_per_token)
    if len(raw) != layers:
        raise SpecError(
            path, f"has {len(raw)} lists, but {layers} layers of the model have experts.", FORM
        )
    rows = tuple(
        _row(row, experts, experts_per_token, (*path, layer)) for layer, row in enumerate(raw)
    )
    return Routing(rows, experts_per_token)


def _row(raw: Any, experts: int, experts_per_token: int, path: Path) -> tuple[float, ...]:
    if not isinstance(raw, list | tuple):
        raise SpecError(path, "must be a list like the others.", FORM)
    if len(raw) != experts:
        raise SpecError(path, f"has {len(raw)} numbers for {experts} experts.", FORM)
    try:
        row = _ROW.validate_python(raw)
    except ValidationError as error:
        raise spec_error_from(error, path) from error
    total = sum(row)
    if not total:
        raise SpecError(
            path, "is 0 for every expert.", "Leave it out where nothing is known of the routing."
        )
    if not math.isfinite(total):
        raise SpecError(path, "adds up to more than a number can hold.", "Divide it by something.")
    largest = max(row)
    if largest * experts_per_token > total * (1 + ROUNDING):
        expert = row.index(largest)
        raise SpecError(
            (*path, expert),
            f"gives expert {expert} {largest / total:.1%} of all choices, but a token chooses "
            f"{experts_per_token} different experts, so no expert gets more than "
            f"{1 / experts_per_token:.1%}.",
            "Count each choice of each token once.",
        )
    return tuple(row)


def _whole(weights: Sequence[float]) -> tuple[int, ...]:
    # As written, not as binary: 0.1 is a tenth.
    exact = [Fraction(repr(weight)) for weight in weights]
    unit = math.lcm(*(weight.denominator for weight in exact))
    total = sum(exact) * unit
    if total > LARGEST_TOTAL:
        whole = [round(weight * unit * LARGEST_TOTAL / total) for weight in exact]
    else:
        whole = [int(weight * unit) for weight in exact]
    divisor = math.gcd(*whole)
    return tuple(weight // divisor for weight in whole)
