"""The graph document: operators, tensors and parameters as a client posts them, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from planner.cost.model import LARGEST_LAYERS
from planner.documents import (
    LARGEST_VALUE,
    WRITE_NUMBER,
    Document,
    PositiveWhole,
    Refused,
    spec_error_from,
)
from planner.errors import SpecError
from planner.sharding.graph import Attribute, Graph, Operator, Parameter, Repeat, Tensor
from planner.sharding.graph_reader import GraphReader

Path = tuple[str | int, ...]

LARGEST_OPERATORS = 20_000
LARGEST_DIMENSIONS = 8
LARGEST_ARITY = 1_000
LONGEST_TEXT = 200


def _at_most(limit: int, what: str) -> BeforeValidator:
    """Looked at before the entries, so that too many of them cost nothing."""

    def check(value: Any) -> Any:
        if isinstance(value, list | tuple | dict) and len(value) > limit:
            raise Refused(
                f"has {len(value):,} {what}; at most {limit:,} are allowed", "Give fewer of them."
            )
        return value

    return BeforeValidator(check)


def _attribute(value: Any) -> Any:
    """Whole numbers as such however they are spelled, all else as it is."""
    if not isinstance(value, int | float | str):
        raise Refused("must be a number, a text, true or false", "Give one of these.")
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            raise Refused(f"must be a text of at most {LONGEST_TEXT} characters", "Shorten it.")
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise Refused("must be a finite number, not NaN or Infinity", WRITE_NUMBER)
    if abs(value) > LARGEST_VALUE:
        raise Refused("must be a number below 2^53", "Give a smaller one.")
    return int(value) if isinstance(value, float) and value.is_integer() else value


Name = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
Shape = Annotated[
    list[PositiveWhole], Field(fail_fast=True), _at_most(LARGEST_DIMENSIONS, "dimensions")
]


class TensorDocument(Document):
    """An activation or an input of the graph; an empty `shape` is a scalar."""

    name: Name
    shape: Shape
    dtype: Annotated[str, Field(max_length=LONGEST_TEXT)]


class ParameterDocument(Document):
    """A weight; a linear layer's first one is [input features, output features]."""

    name: Name
    shape: Annotated[Shape, Field(min_length=1)]
    tied_to: Name | None = Field(
        default=None, description="The operator that holds this weight, if another one does."
    )


class OperatorDocument(Document):
    """One operator; the order of operators does not matter."""

    name: Name
    kind: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
    inputs: Annotated[
        list[Name], Field(min_length=1, fail_fast=True), _at_most(LARGEST_ARITY, "inputs")
    ] = Field(description="Names of the graph's inputs or of other operators' outputs.")
    outputs: Annotated[
        list[TensorDocument],
        Field(min_length=1, fail_fast=True),
        _at_most(LARGEST_ARITY, "outputs"),
    ]
    parameters: Annotated[
        list[ParameterDocument], Field(fail_fast=True), _at_most(LARGEST_ARITY, "parameters")
    ] = Field(default=[])
    attributes: Annotated[
        dict[Name, Annotated[Attribute, BeforeValidator(_attribute)]],
        _at_most(LARGEST_ARITY, "attributes"),
    ] = Field(default={}, description="What the kind needs beside the shapes.")


class RepeatDocument(Document):
    """The operators between two tensors are one of `count` identical layers."""

    count: Annotated[PositiveWhole, Field(le=LARGEST_LAYERS)]
    input: Name = Field(description="What the first layer reads.")
    output: Name = Field(description="What each next layer reads in its place.")


class GraphDocument(Document):
    """A computation graph of whole tensors, before anything is split."""

    inputs: Annotated[
        list[TensorDocument],
        Field(min_length=1, fail_fast=True),
        _at_most(LARGEST_OPERATORS, "inputs"),
    ]
    operators: Annotated[
        list[OperatorDocument],
        Field(min_length=1, fail_fast=True),
        _at_most(LARGEST_OPERATORS, "operators"),
    ]
    repeat: RepeatDocument | None = None


def read_graph(raw: Mapping[str, Any], path: Path = ("graph",)) -> Graph:
    """Read a graph document: inputs first, then the operators in an order in which they can run,
    as near to the given one as possible.

    Raises `SpecError` that names the first field at fault, below `path`.
    """
    if not isinstance(raw, Mapping):
        raise SpecError(path, "must be an object.", "Give `inputs` and `operators`.")
    try:
        document = GraphDocument.model_validate(raw)
    except ValidationError as error:
        raise spec_error_from(error, path) from error
    reader = GraphReader(path)
    for place, tensor in enumerate(document.inputs):
        reader.add_input(_tensor(tensor), ("inputs", place))
    for place, operator in enumerate(document.operators):
        outputs = tuple(map(_tensor, operator.outputs))
        reader.add_operator(_operator(operator, place), outputs, ("operators", place))
    if document.repeat is None:
        return reader.graph(None)
    return reader.graph(Repeat(**document.repeat.model_dump()))


def _tensor(document: TensorDocument) -> Tensor:
    return Tensor(document.name, tuple(document.shape), document.dtype)


def _operator(document: OperatorDocument, place: int) -> Operator:
    return Operator(
        name=document.name,
        kind=document.kind,
        inputs=tuple(document.inputs),
        outputs=tuple(tensor.name for tensor in document.outputs),
        parameters=tuple(
            Parameter(parameter.name, tuple(parameter.shape), parameter.tied_to)
            for parameter in document.parameters
        ),
        attributes=document.attributes,
        place=place,
    )


def graph_to_document(graph: Graph) -> dict[str, Any]:
    """A graph as the document that `read_graph` makes it of again, always spelled the same way."""

    def tensor(name: str) -> dict[str, Any]:
        own = graph.tensors[name]
        return {"name": own.name, "shape": list(own.shape), "dtype": own.dtype}

    def operator(own: Operator) -> dict[str, Any]:
        return {
            "name": own.name,
            "kind": own.kind,
            "inputs": list(own.inputs),
            "outputs": [tensor(name) for name in own.outputs],
            "parameters": [_parameter_document(parameter) for parameter in own.parameters],
            "attributes": dict(sorted(own.attributes.items())),
        }

    inputs = [own for own in graph.operators if own.kind == "input"]
    document: dict[str, Any] = {
        "inputs": [tensor(own.outputs[0]) for own in inputs],
        "operators": [operator(own) for own in graph.operators if own.kind != "input"],
    }
    if graph.repeat is not None:
        repeat = graph.repeat
        document["repeat"] = {
            "count": repeat.count,
            "input": repeat.input,
            "output": repeat.output,
        }
    return document


def _parameter_document(parameter: Parameter) -> dict[str, Any]:
    document: dict[str, Any] = {"name": parameter.name, "shape": list(parameter.shape)}
    if parameter.tied_to is not None:
        document["tied_to"] = parameter.tied_to
    return document
