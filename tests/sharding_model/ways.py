"""How a way to split an operator is written down: names for dimensions, and roles that split names.

The dimensions of an operator's tensors have names, as in an einsum: a role splits all dimensions
of a name at once. What is partial, copied and sent follows from that (`costs`). Roles are letters,
`d`, `r` and `c`; a dimension that several roles split names them from the outermost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from planner.sharding.graph import Operator, Tensor

Names = tuple[str, ...]
Shape = tuple[int, ...]
USUAL = {"b": "d", "f": "c"}
IN_SEQUENCE = {"s": "r"}
"""Batch and features, and the sequence: what roles split of activations."""


@dataclass(frozen=True)
class Use:
    """A tensor with a name per dimension. `apart`: roles that split dimensions further between
    operators than while this one works."""

    names: Names
    kept: bool = False
    apart: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Array:
    """Something that is no tensor of the graph, but is kept or sent."""

    shape: Shape
    names: Names
    dtype: str


@dataclass(frozen=True)
class Way:
    """One way to split an operator.

    `pieces`: equal parts of dimensions that stay together. `reduced`: all-reduces of its own, the
    role's letter first. `exchanged`: what the row devices exchange in all-to-alls. `inner_sums`:
    roles over which the gradients of all inputs are partial whatever the names say.
    `adds_apart`: parameters are added to outputs that already lie apart.
    """

    roles: Mapping[str, str]
    inputs: tuple[Use, ...]
    outputs: tuple[Use, ...]
    parameters: tuple[Use, ...] = ()
    suffix: str = ""
    pieces: Mapping[str, int] = field(default_factory=dict)
    extras: tuple[Array, ...] = ()
    reduced: tuple[tuple[str, Array], ...] = ()
    exchanged: tuple[Array, ...] = ()
    counts_inputs: bool = False
    inner_sums: str = ""
    adds_apart: bool = False
    is_view: bool = False


Maker = Callable[[Operator, Sequence[Tensor], Sequence[Tensor], bool], Iterator[Way]]
"""The ways to split an operator with these inputs and outputs, with sequence parallelism or not."""


def named(shape: Shape, **at: int | None) -> Names:
    """`b` first, `s` second of three, and the given ones at their places."""
    names = [""] * len(shape)
    if names:
        names[0] = "b"
    if len(shape) == 3:
        names[1] = "s"
    for name, place in at.items():
        if place is not None:
            names[place] = name
    return tuple(names)


def features(operator: Operator, shape: Shape) -> int | None:
    given = operator.attributes.get("column_dimension")
    if isinstance(given, int):
        return given
    return None if len(shape) < 2 else 1 if len(shape) > 3 else len(shape) - 1


def usual(names: Names, sequence_parallel: bool) -> Iterator[tuple[dict[str, str], str]]:
    yield USUAL, ""
    if sequence_parallel and "s" in names:
        yield USUAL | IN_SEQUENCE, "sp"
