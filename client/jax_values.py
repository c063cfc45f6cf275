"""Tensors of a traced JAX function as values of the operator graph."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from jax.tree_util import tree_flatten_with_path

from client.errors import InputError
from client.operator_graph.trace import FLOATING, Origin, Shape, Value

DTYPES = {
    "float64": "fp64", "float32": "fp32", "bfloat16": "bf16", "float16": "fp16",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "int64": "int64", "int32": "int32",
    "uint32": "int32", "int16": "int32", "int8": "int8", "uint8": "int8", "bool": "bool",
}  # fmt: skip


def leaves_of(tree: Any, origin: Origin, prefix: str) -> Iterator[Value]:
    """The tensors in nested arguments, named by their paths."""
    for path, leaf in tree_flatten_with_path(tree)[0]:
        parts = [str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path]
        yield value_of(leaf, origin, ".".join([prefix, *parts]).strip(".") or origin)


def value_of(aval: Any, origin: Origin = "step", name: str = "", gradient: bool = True) -> Value:
    """A tensor of this shape and dtype. Raises `InputError` for a dtype that graphs do not have."""
    dtype = str(aval.dtype)
    if dtype not in DTYPES:
        raise InputError(
            name or "function", f"has a tensor of {dtype}.", "Use floating point or integers."
        )
    own = DTYPES[dtype]
    has_gradient = gradient and own in FLOATING and origin != "constant"
    return Value(tuple(aval.shape), own, origin, name, has_gradient)


def layers_name(stacks: Sequence[Value]) -> str:
    """What the paths of all stacked weights begin with, and a star for the layer's number."""
    paths = [each.name.split(".") for each in stacks if each.is_parameter]
    common = [parts[0] for parts in zip(*paths, strict=False) if len(set(parts)) == 1]
    return ".".join([*(common or ["layers"]), "*"])


def slice_of(stack: Value, layers: str) -> Value:
    """What one turn of a scan takes of its stacked values; a weight of each layer's own."""
    prefix = layers.removesuffix("*")
    name = layers + "." + stack.name.removeprefix(prefix) if stack.is_parameter else stack.name
    return Value(stack.shape[1:], stack.dtype, stack.origin, name, stack.has_gradient)


def view_of(weight: Value, like: Value) -> Value:
    """A weight in another shape, or a part of it, which is a weight of its own."""
    if math.prod(like.shape) < math.prod(weight.shape):
        return Value(like.shape, weight.dtype, "parameter", f"{weight.name}:part", True)
    return Value(like.shape, weight.dtype, "parameter", weight.name, True, weight.whole or weight)


def like(value: Value, shape: Shape) -> Value:
    """What an operation makes of a value: of another shape, no weight and without a name."""
    return Value(shape, value.dtype, has_gradient=value.has_gradient)


def free_dimension(value: Value, contracted: int, batch: Sequence[int]) -> int:
    """The one dimension that is neither contracted nor of the batch."""
    return next(n for n in range(len(value.shape)) if n != contracted and n not in batch)


def is_linear(x: Value, weight: Value, of_weight: tuple[int, ...]) -> bool:
    """Whether an activation meets the first or the last dimensions of a weight."""
    first = tuple(range(len(of_weight)))
    behind = tuple(range(len(weight.shape) - len(of_weight), len(weight.shape)))
    return not x.is_parameter and tuple(sorted(of_weight)) in (first, behind)
