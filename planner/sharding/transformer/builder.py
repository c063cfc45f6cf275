"""Writing down operators one after another: each takes tensors and gives the ones that it makes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from planner.cost.model import Model, Norm
from planner.sharding.graph import Attribute, Graph, Operator, Parameter, Repeat, Tensor
from planner.sharding.training import ShardingTraining

TOKEN_DTYPE = "int64"
VOCABULARY_MULTIPLE = 128


class TransformerBuilder:
    """A graph that grows operator by operator. An operator's only output has its name.

    `model` and `training` decide shapes, biases and which operators there are; `batch` samples of
    `sequence` tokens pass through on `devices` devices.
    """

    def __init__(
        self, model: Model, training: ShardingTraining, batch: int, sequence: int, devices: int
    ) -> None:
        self.model = model
        self.training = training
        self.batch = batch
        self.sequence = sequence
        self.vocabulary = padded_vocabulary(model.vocabulary, devices)
        self._inputs: list[Operator] = []
        self._operators: list[Operator] = []
        self._tensors: dict[str, Tensor] = {}

    def graph(self, repeat: Repeat | None) -> Graph:
        """All operators, the inputs first."""
        return Graph((*self._inputs, *self._operators), self._tensors, repeat)

    def input(self, name: str, shape: tuple[int, ...], dtype: str | None = None) -> Tensor:
        """A tensor from outside; `dtype` is the training's unless given."""
        self._inputs.append(Operator(name, "input", (), (name,)))
        return self._tensor(name, shape, dtype)

    def hidden_input(self, name: str) -> Tensor:
        """The hidden states of all tokens from outside."""
        return self.input(name, (self.batch, self.sequence, self.model.hidden_size))

    def token_input(self, name: str) -> Tensor:
        """A token number at each position from outside."""
        return self.input(name, (self.batch, self.sequence), TOKEN_DTYPE)

    def add(
        self,
        name: str,
        kind: str,
        inputs: Sequence[Tensor],
        shape: tuple[int, ...],
        parameters: Sequence[Parameter] = (),
        dtype: str | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Tensor:
        """An operator with one output."""
        (output,) = self.add_many(name, kind, inputs, {name: shape}, parameters, dtype, attributes)
        return output

    def add_many(
        self,
        name: str,
        kind: str,
        inputs: Sequence[Tensor],
        outputs: dict[str, tuple[int, ...]],
        parameters: Sequence[Parameter] = (),
        dtype: str | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> tuple[Tensor, ...]:
        """An operator with the named outputs of these shapes."""
        self._operators.append(
            Operator(
                name,
                kind,
                tuple(tensor.name for tensor in inputs),
                tuple(outputs),
                tuple(parameters),
                dict(attributes or {}),
            )
        )
        return tuple(self._tensor(output, shape, dtype) for output, shape in outputs.items())

    def linear(
        self,
        name: str,
        x: Tensor,
        width: int,
        *,
        bias: bool,
        units: Mapping[str, Attribute] | None = None,
    ) -> Tensor:
        """Y = X W + bias; `units` are `column_units` and `row_units`."""
        parameters = [Parameter("weight", (x.shape[-1], width))]
        if bias:
            parameters.append(Parameter("bias", (width,)))
        shape = (*x.shape[:-1], width)
        return self.add(name, "linear", [x], shape, parameters, attributes=units)

    def norm(self, name: str, x: Tensor) -> Tensor:
        """The model's kind of normalisation over the last dimension."""
        parameters = [Parameter("weight", (x.shape[-1],))]
        if self.model.norm is Norm.RMSNORM:
            return self.add(name, "rms_norm", [x], x.shape, parameters)
        parameters.append(Parameter("bias", (x.shape[-1],)))
        return self.add(name, "layer_norm", [x], x.shape, parameters)

    def dropout(self, name: str, x: Tensor) -> Tensor:
        """A dropout where the training has it, else the tensor as it is."""
        return self.add(name, "dropout", [x], x.shape) if self.training.dropout else x

    def _tensor(self, name: str, shape: tuple[int, ...], dtype: str | None) -> Tensor:
        tensor = Tensor(name, shape, dtype or self.training.precision)
        self._tensors[name] = tensor
        return tensor


def padded_vocabulary(vocabulary: int, devices: int) -> int:
    """Megatron-LM pads the vocabulary to a multiple of 128 x tensor_parallel; here, where operators
    are split differently, to the next multiple of 128 that all devices divide."""
    multiple = math.lcm(VOCABULARY_MULTIPLE, devices)
    return multiple * -(-vocabulary // multiple)
