"""The computation graph: operators, their tensors and parameters.

A tensor is made by one operator (or is one of the graph's inputs, which an operator of kind
`input` stands for) and read by any number of others. Shapes are whole, before anything is split.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

DTYPE_BYTES: Mapping[str, int] = {
    "fp64": 8,
    "fp32": 4,
    "bf16": 2,
    "fp16": 2,
    "fp8": 1,
    "int64": 8,
    "int32": 4,
    "int8": 1,
    "bool": 1,
}
FLOATING = ("fp64", "fp32", "bf16", "fp16", "fp8")
"""The dtypes that have gradients."""

Attribute = int | float | str | bool


@dataclass(frozen=True, slots=True)
class Tensor:
    """An activation: `shape` in elements, `dtype` one of `DTYPE_BYTES`."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        """How many there are; 1 for a scalar."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.elements * DTYPE_BYTES[self.dtype]

    @property
    def has_gradient(self) -> bool:
        """Token numbers and masks have none."""
        return self.dtype in FLOATING


@dataclass(frozen=True, slots=True)
class Parameter:
    """A weight of one operator. `tied_to` names the operator that holds it if another one does;
    that operator's first untied parameter of the same sizes is meant."""

    name: str
    shape: tuple[int, ...]
    tied_to: str | None = None

    @property
    def elements(self) -> int:
        """How many there are."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Operator:
    """One node. `inputs` and `outputs` are names of tensors.

    `attributes` are what the kind needs beside the shapes (`heads`, `column_units`, `experts`, …);
    each kind's module says which. `place` is the operator's number in the document that it was
    read from, for messages about it; two operators that differ in it alone are the same.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[Parameter, ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    place: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Repeat:
    """Operators between two tensors are one layer of `count` identical ones.

    `output` is the tensor that the next layer reads as `input`. Operators that do not lie between
    the two are there once: what makes the first layer's input, and what reads the last's output.
    """

    count: int
    input: str
    output: str


@dataclass(frozen=True)
class Graph:
    """Operators in an order in which they can run."""

    operators: tuple[Operator, ...]
    tensors: Mapping[str, Tensor]
    repeat: Repeat | None = None

    @cached_property
    def producer_of(self) -> dict[str, int]:
        """The number of the operator that makes each tensor."""
        return {
            tensor: number
            for number, operator in enumerate(self.operators)
            for tensor in operator.outputs
        }

    @cached_property
    def consumers_of(self) -> dict[str, list[int]]:
        """The numbers of the operators that read each tensor, each once."""
        found: dict[str, list[int]] = {name: [] for name in self.tensors}
        for number, operator in enumerate(self.operators):
            for tensor in dict.fromkeys(operator.inputs):
                found[tensor].append(number)
        return found

    @cached_property
    def number_of(self) -> dict[str, int]:
        """The number of each operator by its name."""
        return {operator.name: number for number, operator in enumerate(self.operators)}

    def inputs_of(self, operator: Operator) -> tuple[Tensor, ...]:
        """The tensors that an operator reads."""
        return tuple(self.tensors[name] for name in operator.inputs)

    def outputs_of(self, operator: Operator) -> tuple[Tensor, ...]:
        """The tensors that an operator makes."""
        return tuple(self.tensors[name] for name in operator.outputs)
