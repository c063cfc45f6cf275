"""Checks that the kinds of operators share; each names the field at fault and what would do."""

from __future__ import annotations

from planner.errors import SpecError
from planner.sharding.graph import Operator, Tensor

Path = tuple[str | int, ...]


def path_of(operator: Operator, *fields: str | int) -> Path:
    """Where an operator's field stands in the request: by its number in the list, or by its name
    where it was in none."""
    where = operator.name if operator.place is None else operator.place
    return ("graph", "operators", where, *fields)


def whole_attribute(operator: Operator, name: str, default: int, *, least: int = 1) -> int:
    """A whole number of at least `least`. Raises `SpecError` for anything else."""
    value = operator.attributes.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SpecError(
            path_of(operator, "attributes", name),
            f"must be a whole number of at least {least}, not {value!r}.",
            f"Write it without quotes or a fraction, such as {default}.",
        )
    return value


def flag_attribute(operator: Operator, name: str, default: bool) -> bool:
    """True or false. Raises `SpecError` for anything else."""
    value = operator.attributes.get(name, default)
    if not isinstance(value, bool):
        raise SpecError(
            path_of(operator, "attributes", name),
            f"must be true or false, not {value!r}.",
            "Write either without quotes.",
        )
    return value


def require_packing(operator: Operator) -> None:
    """Raise `SpecError` unless `packing` is "blocks" or "groups", see `split_heads` and `glu`, or
    the graph does not say."""
    value = operator.attributes.get("packing")
    if value not in (None, "blocks", "groups"):
        raise SpecError(
            path_of(operator, "attributes", "packing"),
            f"must be blocks or groups, not {value!r}.",
            'Give "blocks" where each part lies behind the other, "groups" where pieces of all '
            "parts are neighbours, or leave it out.",
        )


def units_attribute(operator: Operator, name: str, size: int) -> int:
    """Indivisible pieces of a dimension of `size`; default: single elements.

    Raises `SpecError` where the pieces are not alike.
    """
    units = whole_attribute(operator, name, size)
    if size % units:
        raise SpecError(
            path_of(operator, "attributes", name),
            f"{units} equal pieces do not make up a dimension of {size}.",
            "Give a divisor of it, such as the number of heads.",
        )
    return units


def require(holds: bool, path: Path, message: str, remedy: str) -> None:
    """Raise `SpecError` unless the condition holds."""
    if not holds:
        raise SpecError(path, message, remedy)


def require_dimensions(
    operator: Operator, field: str, number: int, tensor: Tensor, least: int
) -> None:
    """Raise `SpecError` where a tensor has fewer than `least` dimensions."""
    require(
        len(tensor.shape) >= least,
        path_of(operator, field, number),
        f"{tensor.name!r} has {len(tensor.shape)} dimensions, {list(tensor.shape)}.",
        f"A {operator.kind} operator needs at least {least}.",
    )


def require_shape(
    operator: Operator,
    field: str,
    number: int,
    found: tuple[int, ...],
    wanted: tuple[int, ...],
    why: str,
) -> None:
    """Raise `SpecError` where a tensor or parameter has not the shape that follows from others."""
    require(
        found == wanted,
        path_of(operator, field, number),
        f"has the shape {list(found)}, which does not fit {why}.",
        f"{list(wanted)} would.",
    )


def require_numbers(operator: Operator, number: int, tensor: Tensor) -> None:
    """Raise `SpecError` where an input that numbers tokens or classes is not of integers."""
    require(
        not tensor.has_gradient,
        path_of(operator, "inputs", number),
        f"{tensor.name!r} holds {tensor.dtype}, not whole numbers.",
        "Give it the dtype int64 or int32.",
    )
