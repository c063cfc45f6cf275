"""Shared pieces of the JSON documents that the planner reads: strict numbers and one error, which
says what would be accepted."""

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
    model_validator,
)

from planner.errors import SpecError

LARGEST_VALUE = 2**53 - 1
LONGEST_LIST = 100_000
MOST_FIELDS = 1_000


class Refused(ValueError):
    """What a validator of a document finds wrong, and what it would accept."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


WRITE_WHOLE = "Write it without quotes or a fraction, such as 8."
WRITE_NUMBER = "Write it without quotes, such as 8 or 0.5."


def _whole_number(value: Any) -> Any:
    """Accept whole numbers however they are spelled (18000000, 1.8e7); refuse bool and text."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refused("must be a whole number", WRITE_WHOLE)
    if isinstance(value, float):
        if not math.isfinite(value) or not value.is_integer():
            raise Refused("must be a whole number", WRITE_WHOLE)
        return int(value)
    return value


def _finite_number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refused("must be a number", WRITE_NUMBER)
    try:
        number = float(value)
    except OverflowError as error:
        raise Refused("must be a finite number", "Give a smaller one.") from error
    if not math.isfinite(number):
        raise Refused("must be a finite number, not NaN or Infinity", WRITE_NUMBER)
    return number


WholeNumber = Annotated[int, BeforeValidator(_whole_number), Field(ge=0, le=LARGEST_VALUE)]
PositiveWhole = Annotated[int, BeforeValidator(_whole_number), Field(ge=1, le=LARGEST_VALUE)]
FiniteNumber = Annotated[float, BeforeValidator(_finite_number)]

ONE_NUMBER, LIST_OF_NUMBERS, STATISTICS = "(one number)", "(list of numbers)", "(statistics)"
"""Tags of the members of unions; no complaint names them."""


def one_or_list(value: Any) -> str:
    """The tag of a field that takes one number or a list of numbers."""
    return LIST_OF_NUMBERS if isinstance(value, list | tuple) else ONE_NUMBER


def _not_too_long(value: Any) -> Any:
    """Looked at before the entries, so that a list or an object of millions costs nothing."""
    if isinstance(value, list | dict) and len(value) > LONGEST_LIST:
        raise Refused(f"must have at most {LONGEST_LIST} entries", "Give fewer of them.")
    return value


Listed = (Field(fail_fast=True), BeforeValidator(_not_too_long))
"""For lists and maps of a document: bounded, and the first entry at fault ends the reading."""

PerMicroBatch = Annotated[
    Annotated[WholeNumber, Tag(ONE_NUMBER)]
    | Annotated[list[WholeNumber], *Listed, Tag(LIST_OF_NUMBERS)],
    Discriminator(one_or_list),
]
"""One whole number for all micro-batches, or a list with one per micro-batch."""


class Document(BaseModel):
    """Base of every document: unknown fields are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _has_not_too_many_fields(cls, value: Any) -> Any:
        """Each unknown one would be an error of its own."""
        if isinstance(value, dict) and len(value) > MOST_FIELDS:
            raise Refused(f"must have at most {MOST_FIELDS} fields", "Remove unknown ones.")
        return value


_WRITE_OBJECT = 'Write it in braces: {"field": value}.'
_MISTYPED = {
    "string_type": ("must be a text", 'Write it in quotes: "text".'),
    "list_type": ("must be a list", "Write it in brackets, a single entry too: [entry]."),
    "dict_type": ("must be an object", _WRITE_OBJECT),
    "model_type": ("must be an object", _WRITE_OBJECT),
    "model_attributes_type": ("must be an object", _WRITE_OBJECT),
    "bool_type": ("must be true or false", "Write either without quotes."),
    "bool_parsing": ("must be true or false", "Write either of them."),
    "int_type": ("must be a whole number", WRITE_WHOLE),
    "int_parsing": ("must be a whole number", "Write digits only."),
}
"""By kind of pydantic error: what is wrong in a client's words, and how to write it instead."""
_OUT_OF_RANGE = {
    "greater_than": "Give more than {gt}.",
    "greater_than_equal": "Give {ge} or more.",
    "less_than": "Give less than {lt}.",
    "less_than_equal": "Give {le} or less.",
    "too_short": "Give {min_length} or more entries.",
    "too_long": "Give at most {max_length} entries.",
    "string_too_short": "Give {min_length} or more characters.",
    "string_too_long": "Shorten it to {max_length} characters.",
    "literal_error": "Choose {expected}.",
    "enum": "Choose {expected}.",
}
_UNION = {"str": "a text", "dict[str,any]": "an object"}
"""What pydantic calls the members of a union in the path of a complaint."""


def complaint_and_remedy(complaint: Mapping[str, Any]) -> tuple[str, str]:
    """What an entry of pydantic's list of errors says is wrong, and what would be accepted."""
    kind, message, context = complaint["type"], complaint["msg"], complaint.get("ctx", {})
    if kind == "missing":
        return "is required", f"Give `{complaint['loc'][-1]}`."
    if kind == "extra_forbidden":
        return "is not a known field", "Remove it or check its spelling."
    if kind in _MISTYPED:
        return _MISTYPED[kind]
    if kind in _OUT_OF_RANGE:
        limits = {name: _without_fraction(limit) for name, limit in context.items()}
        return message, _OUT_OF_RANGE[kind].format(**limits)
    refused = context.get("error")
    if isinstance(refused, Refused):
        return str(refused), refused.remedy
    return message, "The OpenAPI page at /docs says what each field takes."


def spec_error_from(error: ValidationError, prefix: tuple[str | int, ...] = ()) -> SpecError:
    """The first complaint of a pydantic validation as the planner's own error."""
    complaints = error.errors(include_url=False)
    first = complaints[0]["loc"]
    members = [own["loc"][-1] for own in complaints if own["loc"] and own["loc"][:-1] == first[:-1]]
    if len(members) > 1 and all(member in _UNION for member in members):
        wanted = " or ".join(_UNION[str(member)] for member in members)
        return SpecError(prefix + first[:-1], f"must be {wanted}.", f"Give {wanted}.")
    tags = (ONE_NUMBER, LIST_OF_NUMBERS, STATISTICS)
    path = prefix + tuple(part for part in first if part not in tags)
    message, remedy = complaint_and_remedy(complaints[0])
    return SpecError(path, f"{message}.", remedy)


def _without_fraction(limit: Any) -> Any:
    """A limit as a client would write it."""
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def canonical_hash(document: Mapping[str, Any]) -> str:
    """SHA-256 over a JSON document, however its keys are ordered."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
