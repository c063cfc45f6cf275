"""Operators of the graph to be posted, before layers are folded and the document is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from client.operator_graph.trace import Shape, Value

DTYPE_BYTES = {
    "fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int64": 8, "int32": 4, "int8": 1,
    "bool": 1,
}  # fmt: skip


@dataclass(frozen=True)
class TensorRecord:
    """A tensor of the graph by its name there."""

    name: str
    shape: Shape
    dtype: str


@dataclass(frozen=True)
class ParameterRecord:
    """A weight: its name in the operator, its shape there, and the module's own parameter."""

    name: str
    shape: Shape
    source: Value
    tied_to: str | None = None


@dataclass
class OperatorRecord:
    """One operator. `saved_bytes`: what was measured to be kept for the backward."""

    name: str
    kind: str
    inputs: list[str]
    outputs: list[TensorRecord]
    parameters: list[ParameterRecord] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    module: str = ""
    call: int = 0
    flops: int = 0
    saved_bytes: int = 0
    is_view: bool = False


@dataclass(frozen=True)
class RepeatRecord:
    """The operators between two tensors are one of `count` identical layers below `module`."""

    count: int
    input: str
    output: str
    module: str


@dataclass
class GraphRecord:
    """A whole graph. `results`: the tensors that the program gives back."""

    inputs: list[TensorRecord]
    operators: list[OperatorRecord]
    results: set[str]
    repeat: RepeatRecord | None = None
    notes: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """The `graph` of a request for a sharding plan."""
        document: dict[str, Any] = {
            "inputs": [_tensor(tensor) for tensor in self.inputs],
            "operators": [_operator(operator) for operator in self.operators],
        }
        if self.repeat is not None:
            document["repeat"] = {
                "count": self.repeat.count,
                "input": self.repeat.input,
                "output": self.repeat.output,
            }
        return document


def _tensor(tensor: TensorRecord) -> dict[str, Any]:
    return {"name": tensor.name, "shape": list(tensor.shape), "dtype": tensor.dtype}


def _operator(operator: OperatorRecord) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": operator.name,
        "kind": operator.kind,
        "inputs": operator.inputs,
        "outputs": [_tensor(tensor) for tensor in operator.outputs],
    }
    if operator.parameters:
        document["parameters"] = [_parameter(parameter) for parameter in operator.parameters]
    if operator.attributes:
        document["attributes"] = operator.attributes
    return document


def _parameter(parameter: ParameterRecord) -> dict[str, Any]:
    document: dict[str, Any] = {"name": parameter.name, "shape": list(parameter.shape)}
    if parameter.tied_to is not None:
        document["tied_to"] = parameter.tied_to
    return document
