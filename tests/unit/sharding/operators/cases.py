"""Operators with values for their tensors: what a whole one computes, and a device's programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from planner.sharding.graph import Graph, Operator, Parameter, Tensor
from tests.unit.sharding.operators.mesh import Array, Device, Program


@dataclass
class Case:
    """An operator with values for its inputs and parameters.

    `whole` computes the outputs from all inputs and parameters; `forward` and `backward` are the
    programs of a device: blocks in, (outputs, what is kept beside inputs and outputs) out, and
    (saved inputs, saved outputs, kept, parameters, gradients of the outputs) in, (gradients of the
    inputs, of the parameters) out.
    """

    operator: Operator
    graph: Graph
    inputs: list[Array]
    parameters: list[Array]
    whole: Callable[[list[Array], list[Array]], list[Array]]
    forward: Callable[[Device, list[Array], list[Array]], Program]
    backward: Callable[..., Program]
    rng: np.random.Generator

    @cached_property
    def outputs(self) -> list[Array]:
        """Those of the whole operator."""
        return self.whole(self.inputs, self.parameters)

    @cached_property
    def output_gradients(self) -> list[Array]:
        """Gradients that arrive from whoever reads the outputs."""
        return [self.rng.standard_normal(array.shape) for array in self.outputs]

    @cached_property
    def input_gradients(self) -> list[Array | None]:
        """By central differences; None for whole numbers."""
        return [self._gradient(array) for array in self.inputs]

    @cached_property
    def parameter_gradients(self) -> list[Array | None]:
        """By central differences."""
        return [self._gradient(array) for array in self.parameters]

    def _loss(self) -> float:
        made = self.whole(self.inputs, self.parameters)
        return float(sum((g * y).sum() for g, y in zip(self.output_gradients, made, strict=True)))

    def _gradient(self, array: Array, step: float = 1e-5) -> Array | None:
        if array.dtype.kind != "f":
            return None
        found = np.zeros_like(array)
        for at in np.ndindex(array.shape):
            value = array[at]
            array[at] = value + step
            above = self._loss()
            array[at] = value - step
            found[at] = (above - self._loss()) / (2 * step)
            array[at] = value
        return found


@dataclass
class CaseBuilder:
    """Collects the tensors and parameters of a case, with random values unless given."""

    kind: str
    rng: np.random.Generator
    attributes: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    values: list[Array] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    parameter_values: list[Array] = field(default_factory=list)

    def input(self, *shape: int, value: Array | None = None) -> None:
        """A tensor that is read; of whole numbers where its value is."""
        name = f"x{len(self.values)}"
        array = self.rng.standard_normal(shape) if value is None else value
        dtype = "fp32" if array.dtype.kind == "f" else "int64"
        self.tensors[name] = Tensor(name, shape, dtype)
        self.values.append(np.asarray(array))

    def output(self, *shape: int, dtype: str = "fp32") -> None:
        """A tensor that is made."""
        name = f"y{len(self.outputs)}"
        self.tensors[name] = Tensor(name, shape, dtype)
        self.outputs.append(name)

    def parameter(self, *shape: int) -> None:
        """A weight."""
        self.parameters.append(Parameter(f"w{len(self.parameters)}", shape))
        self.parameter_values.append(self.rng.standard_normal(shape))

    def case(
        self,
        whole: Callable[[list[Array], list[Array]], list[Array]],
        forward: Callable[[Device, list[Array], list[Array]], Program],
        backward: Callable[..., Program],
    ) -> Case:
        """The finished case."""
        operator = Operator(
            "v",
            self.kind,
            tuple(f"x{number}" for number in range(len(self.values))),
            tuple(self.outputs),
            tuple(self.parameters),
            self.attributes,
        )
        graph = Graph((operator,), self.tensors)
        values = self.values, self.parameter_values
        return Case(operator, graph, *values, whole, forward, backward, self.rng)
