"""Shared pieces of the JSON documents that the planner reads: strict numbers and one error."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
)

from planner.errors import SpecError

LARGEST_VALUE = 2**53 - 1
LONGEST_LIST = 100_000


def _whole_number(value: Any) -> Any:
    """Accept whole numbers however they are spelled (18000000, 1.8e7); refuse bool and text."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("must be a whole number")
    if isinstance(value, float):
        if not math.isfinite(value) or not value.is_integer():
            raise ValueError("must be a whole number")
        return int(value)
    return value


def _finite_number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("must be a number")
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError("must be a finite number") from error
    if not math.isfinite(number):
        raise ValueError("must be a finite number, not NaN or Infinity")
    return number


WholeNumber = Annotated[int, BeforeValidator(_whole_number), Field(ge=0, le=LARGEST_VALUE)]
PositiveWhole = Annotated[int, BeforeValidator(_whole_number), Field(ge=1, le=LARGEST_VALUE)]
FiniteNumber = Annotated[float, BeforeValidator(_finite_number)]

ONE_NUMBER, LIST_OF_NUMBERS = "(one number)", "(list of numbers)"


def one_or_list(value: Any) -> str:
    """The tag of a field that takes one number or a list of numbers."""
    return LIST_OF_NUMBERS if isinstance(value, list | tuple) else ONE_NUMBER


def _not_too_long(value: Any) -> Any:
    """Looked at before the entries, so that a list of millions costs nothing."""
    if isinstance(value, list) and len(value) > LONGEST_LIST:
        raise ValueError(f"must have at most {LONGEST_LIST} entries")
    return value


Listed = (Field(fail_fast=True), BeforeValidator(_not_too_long))
"""For lists of a document: bounded, and the first entry at fault ends the reading."""

PerMicroBatch = Annotated[
    Annotated[WholeNumber, Tag(ONE_NUMBER)]
    | Annotated[list[WholeNumber], *Listed, Tag(LIST_OF_NUMBERS)],
    Discriminator(one_or_list),
]
"""One whole number for all micro-batches, or a list with one per micro-batch."""


class Document(BaseModel):
    """Base of every document: unknown fields are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def spec_error_from(error: ValidationError, prefix: tuple[str | int, ...] = ()) -> SpecError:
    """The first complaint of a pydantic validation as the planner's own error."""
    first = error.errors(include_url=False, include_context=False)[0]
    tags = (ONE_NUMBER, LIST_OF_NUMBERS)
    path = prefix + tuple(part for part in first["loc"] if part not in tags)
    if first["type"] == "extra_forbidden":
        return SpecError(path, "is not a known field.", "Remove it or check its spelling.")
    return SpecError(path, first["msg"].removeprefix("Value error, ") + ".")


def canonical_hash(document: Mapping[str, Any]) -> str:
    """SHA-256 over a JSON document, however its keys are ordered."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
