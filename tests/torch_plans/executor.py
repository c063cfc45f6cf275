"""Runs a graph under a plan: each device computes on its blocks and exchanges what it must.

Between operators blocks are plain tensors. Where it can, an operator runs as DTensor on a mesh of
its own data x row x column, which then finds partial sums by itself; that they are those of the
operator's rule is asserted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from planner.sharding.graph import Graph, Operator, Parameter
from planner.sharding.layout import Layout
from planner.sharding.operators.rule import NO_ROLE, Degrees, ParameterRule, Roles, Split
from planner.sharding.strategies import Strategy, factorisations
from tests.torch_plans.blocks import box_of, role_group, sizes, transfer
from tests.torch_plans.exchange import (
    ChangeLayout,
    Groups,
    SumBackward,
    SumForward,
    cut,
    make_groups,
)
from tests.torch_plans.kinds import AS_DTENSOR, COMPUTE, EPSILON
from tests.torch_plans.norms import SplitLayerNorm

DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Devices:
    """One rank among others: groups of all sets of ranks, and a mesh per degrees. Roles of degree
    1 are no dimension of the mesh, and degrees that are all 1 have none."""

    rank: int
    groups: Groups
    meshes: Mapping[Degrees, DeviceMesh]


@contextmanager
def process_group(backend: str, rank: int, devices: int, store: Any) -> Iterator[Devices]:
    """Join the other ranks. All have to call it."""
    dist.init_process_group(backend, rank=rank, world_size=devices, store=store)
    try:
        meshes = {
            degrees: DeviceMesh("cpu", torch.arange(devices).view([n for n in degrees if n > 1]))
            for degrees in factorisations(devices)
            if devices > 1
        }
        yield Devices(rank, make_groups(devices), meshes)
    finally:
        dist.destroy_process_group()


class ShardedGraph(nn.Module):
    """One device's part of a graph of one input and one output.

    `whole` are the unsharded parameters by "operator/parameter"; None leaves the blocks
    uninitialised.
    """

    def __init__(
        self,
        graph: Graph,
        strategies: Mapping[str, Strategy],
        devices: Devices,
        whole: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.graph = graph
        self.strategies = strategies
        self.devices = devices
        self.blocks = nn.ParameterDict()
        for operator in graph.operators:
            _assert_known(operator, strategies[operator.name])
        dtype = DTYPES[graph.tensors[self.input].dtype]
        for operator, parameter, rule in self._split_parameters():
            layout = strategies[operator.name].layout(rule.split)
            key = parameter_key(operator, parameter)
            if whole is None:
                shape = sizes(box_of(layout, parameter.shape, devices.rank))
                block = torch.empty(shape, dtype=dtype)
            else:
                block = cut(whole[key], layout, devices.rank)
            if (mesh := self._mesh(operator)) is not None:
                block = DTensor.from_local(block, mesh, placements(layout))
            self.blocks[key] = nn.Parameter(block)

    @property
    def input(self) -> str:
        """The tensor that comes from outside."""
        return self.graph.operators[0].outputs[0]

    @property
    def output(self) -> str:
        """The tensor that the last operator makes."""
        return self.graph.operators[-1].outputs[0]

    def block_of(self, tensor: str, whole: torch.Tensor) -> torch.Tensor:
        """This device's block of a tensor as its producer leaves it."""
        return cut(whole, self._layout(tensor), self.devices.rank)

    def block_shape(self, tensor: str) -> list[int]:
        """The shape of this device's block."""
        shape = self.graph.tensors[tensor].shape
        return sizes(box_of(self._layout(tensor), shape, self.devices.rank))

    def gradient_blocks(self) -> dict[str, tuple[torch.Tensor, Layout]]:
        """The parameters' gradients after `sum_gradients`, and how they lie.

        DTensor still takes them for partial sums, so they come as plain blocks.
        """
        found = {}
        for operator, parameter, rule in self._split_parameters():
            key = parameter_key(operator, parameter)
            gradient = self.blocks[key].grad
            if isinstance(gradient, DTensor):
                gradient = gradient.to_local()
            found[key] = (gradient, self.strategies[operator.name].layout(rule.split))
        return found

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From the block of the input to that of the output."""
        held = {self.input: x}
        # Nothing but `held` refers to a tensor, so that it goes when its last reader is done.
        del x
        for number, operator in enumerate(self.graph.operators):
            if operator.kind != "input":
                held.update(zip(operator.outputs, self._run(number, held), strict=True))
        return held[self.output]

    @torch.no_grad()
    def sum_gradients(self) -> None:
        """Add up the parameters' gradients, in place, over the devices that hold parts of them."""
        for operator, parameter, rule in self._split_parameters():
            strategy = self.strategies[operator.name]
            block = self.blocks[parameter_key(operator, parameter)]
            gradient = block.grad
            if isinstance(gradient, DTensor):
                layout = strategy.layout(rule.split)
                _assert_placed(operator, gradient, placements(layout, rule.partial_gradient))
                gradient = gradient.to_local()
            for group in self._groups(strategy, rule.partial_gradient):
                dist.all_reduce(gradient, group=group)

    def _split_parameters(self) -> Iterator[tuple[Operator, Parameter, ParameterRule]]:
        for operator in self.graph.operators:
            rules = self.strategies[operator.name].rule.parameters
            for parameter, rule in zip(operator.parameters, rules, strict=True):
                yield operator, parameter, rule

    def _layout(self, tensor: str) -> Layout:
        producer = self.graph.operators[self.graph.producer_of[tensor]]
        strategy = self.strategies[producer.name]
        return strategy.layout(strategy.rule.outputs[producer.outputs.index(tensor)].split)

    def _mesh(self, operator: Operator) -> DeviceMesh | None:
        strategy = self.strategies[operator.name]
        if operator.kind not in AS_DTENSOR or _splits_norm(operator, strategy):
            return None
        return self.devices.meshes.get(strategy.degrees)

    def _groups(self, strategy: Strategy, roles: Roles) -> list[Any]:
        """The groups of those roles that have more than one device."""
        layout = strategy.layout(Split())
        return [
            self.devices.groups[role_group(layout, number, self.devices.rank)]
            for number, degree in enumerate(strategy.degrees)
            if roles[number] and degree > 1
        ]

    def _run(self, number: int, held: dict[str, torch.Tensor]) -> Sequence[torch.Tensor]:
        operator = self.graph.operators[number]
        inputs = [
            self._arrived(name, place, number, held) for place, name in enumerate(operator.inputs)
        ]
        for name in set(operator.inputs):
            if self.graph.consumers_of[name][-1] == number:
                del held[name]
        strategy = self.strategies[operator.name]
        weights = [self.blocks[parameter_key(operator, each)] for each in operator.parameters]
        if (mesh := self._mesh(operator)) is not None:
            return self._as_dtensor(operator, mesh, inputs, weights)
        for place, rule in enumerate(strategy.rule.inputs):
            for group in self._groups(strategy, rule.partial_gradient):
                inputs[place] = SumBackward.apply(inputs[place], group)
        if _splits_norm(operator, strategy):
            (group,) = self._groups(strategy, Roles(column=True))
            return [SplitLayerNorm.apply(*inputs, *weights, group, EPSILON)]
        outputs = self._computed(operator, inputs, weights)
        for place, rule in enumerate(strategy.rule.outputs):
            for group in self._groups(strategy, rule.partial):
                outputs[place] = SumForward.apply(outputs[place], group)
        return outputs

    def _arrived(
        self, name: str, place: int, number: int, held: Mapping[str, torch.Tensor]
    ) -> torch.Tensor:
        """A tensor in the layout in which the operator wants it."""
        strategy = self.strategies[self.graph.operators[number].name]
        source, target = self._layout(name), strategy.layout(strategy.rule.inputs[place].split)
        shape, rank = self.graph.tensors[name].shape, self.devices.rank
        if transfer(source, target, shape, rank).kind == "same":
            return held[name]
        return ChangeLayout.apply(held[name], source, target, shape, rank, self.devices.groups)

    def _computed(self, operator: Operator, inputs: list[Any], weights: Sequence[Any]) -> list[Any]:
        """The outputs; the caller's list of inputs is emptied, so that they can go."""
        outputs = COMPUTE[operator.kind](self.graph, operator, inputs, weights)
        inputs.clear()
        return list(outputs)

    def _as_dtensor(
        self,
        operator: Operator,
        mesh: DeviceMesh,
        inputs: list[torch.Tensor],
        weights: Sequence[torch.Tensor],
    ) -> list[torch.Tensor]:
        strategy = self.strategies[operator.name]
        for place, of_input in enumerate(strategy.rule.inputs):
            given = placements(strategy.layout(of_input.split))
            inputs[place] = DTensor.from_local(inputs[place], mesh, given)
        outputs = self._computed(operator, inputs, weights)
        for place, of_output in enumerate(strategy.rule.outputs):
            layout = strategy.layout(of_output.split)
            _assert_placed(operator, outputs[place], placements(layout, of_output.partial))
            summed = outputs[place].redistribute(placements=placements(layout))
            outputs[place] = summed.to_local(grad_placements=placements(layout))
        return outputs


def parameter_key(operator: Operator, parameter: Parameter) -> str:
    """Names of parameters are those within the operator."""
    return f"{operator.name}/{parameter.name}"


def placements(layout: Layout, partial: Roles = NO_ROLE) -> list[Placement]:
    """As DTensor says it, for the roles of more than one device."""
    return [
        Partial() if is_partial else Replicate() if dimension is None else Shard(dimension)
        for degree, dimension, is_partial in zip(layout.degrees, layout.split, partial, strict=True)
        if degree > 1
    ]


def _splits_norm(operator: Operator, strategy: Strategy) -> bool:
    return operator.kind == "layer_norm" and strategy.degrees.column > 1


def _assert_known(operator: Operator, strategy: Strategy) -> None:
    """Collectives that the operator's kind calls for beside sums are those of norms alone here."""
    assert strategy.spare == 1, operator.name
    assert not strategy.rule.collectives or operator.kind == "layer_norm", operator.name


def _assert_placed(operator: Operator, tensor: DTensor, wanted: Sequence[Placement]) -> None:
    assert list(tensor.placements) == list(wanted), (operator.name, tensor.placements, wanted)
