"""The strategies of one operator and what each costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from planner.sharding.graph import DTYPE_BYTES, Graph, Operator, Parameter
from tests.sharding_model.devices import Degrees, Lie, Splits, coordinates, elements, lie
from tests.sharding_model.kinds import ways_of
from tests.sharding_model.ways import Names, Shape, Use, Way

Chunk = tuple[Hashable, int]
"""What a device holds, and its bytes."""


@dataclass(frozen=True)
class Conditions:
    """What costs depend on beside the graph. `state_bytes`: of a parameter, its gradient and its
    optimizer states; `slowdown`: how much longer a byte takes between nodes than within one."""

    devices: int
    state_bytes: tuple[int, int, int]
    per_node: int = 1_000_000
    slowdown: float = 1.0
    zero_stage: int = 0
    micro_batches: int = 1
    in_flight: int = 1
    redundancy: str = "source"
    communication: str = "volume"
    sequence_parallel: bool = False


@dataclass(frozen=True)
class Choice:
    """One way to split an operator over all devices."""

    way: Way
    degrees: Degrees

    @property
    def name(self) -> str:
        """As in a plan."""
        spare, d, r, c = self.degrees
        suffix = f"-{self.way.suffix}" if self.way.suffix else ""
        return f"d{d}-r{r}-c{c}{suffix}" + (f"-x{spare}" if spare > 1 else "")

    def degree(self, role: str) -> int:
        """How many devices a role has."""
        return self.degrees["xdrc".index(role)]

    def splits(self, names: Names, apart: Mapping[str, str] | None = None) -> Splits:
        """The roles that split the dimensions of these names."""
        roles = (self.way.roles.get(name, "") + (apart or {}).get(name, "") for name in names)
        return tuple("".join(sorted(own, key="drc".index)) for own in roles)

    def lie(self, shape: Shape, use: Use) -> Lie:
        """Where a tensor lies between operators."""
        return lie(shape, self.splits(use.names, use.apart), self.degrees)

    def size(self, shape: Shape, names: Names) -> int:
        """Elements that a device works with."""
        return elements(lie(shape, self.splits(names), self.degrees)[0])

    def summed(self, names: Names, others: Iterable[tuple[Names, Splits]]) -> str:
        """The roles that split dimensions of others which an array of these names does not have.
        What they hold of it is then partial, unless they split it in another way."""
        own = "".join(self.splits(names))
        found = [
            role
            for other, splits in others
            for name, roles in zip(other, splits, strict=True)
            for role in roles
            if name not in names and role not in own
        ]
        return "".join(dict.fromkeys(found))


class OperatorModel:
    """The strategies of an operator, at least one. `kept`: the names of all tensors that any
    operator keeps for its backward."""

    def __init__(
        self, operator: Operator, graph: Graph, kept: frozenset[str], conditions: Conditions
    ) -> None:
        self.operator = operator
        self.conditions = conditions
        ways = ways_of(operator, graph, conditions.sequence_parallel)
        self._inputs = graph.inputs_of(operator)
        self._outputs = graph.outputs_of(operator)
        self._kept = kept
        self.choices: list[Choice] = []
        for spare in range(1, conditions.devices + 1):
            if not self.choices:
                meshes = _meshes(conditions.devices, spare)
                every = (Choice(way, mesh) for way in ways for mesh in meshes)
                self.choices = [choice for choice in every if self._fits(choice)]

    def _fits(self, choice: Choice) -> bool:
        way = choice.way
        if way.suffix and choice.degree("r") == choice.degree("c") == 1:
            return False
        shapes = [tensor.shape for tensor in (*self._inputs, *self._outputs)]
        shapes += [parameter.shape for parameter in self.operator.parameters]
        uses = (*way.inputs, *way.outputs, *way.parameters)
        for shape, use in zip(shapes, uses, strict=True):
            splits = choice.splits(use.names, use.apart)
            for name, size, roles in zip(use.names, shape, splits, strict=True):
                parts = math.prod(map(choice.degree, roles))
                if size % parts or way.pieces.get(name, size) % parts:
                    return False
        return True

    def costs(self, choice: Choice) -> tuple[str, int, int, int]:
        """Name, redundant bytes, bytes sent, and bytes on the device that holds most."""
        redundant = 0
        memory = [0] * self.conditions.devices
        for chunks in self._states(choice):
            redundant += self._redundant(chunks)
            memory = [held + size for held, (_, size) in zip(memory, chunks, strict=True)]
        for where, item in self._counted(choice):
            redundant += self._redundant([(block, elements(block) * item) for block in where])
        for where, item in self._activations(choice):
            for device, block in enumerate(where):
                memory[device] += self.conditions.in_flight * elements(block) * item
        sent = self.conditions.micro_batches * sum(self._collectives(choice))
        for parameter, use in self._own_parameters(choice):
            sent += self._gradient(choice, parameter, use)
        return choice.name, redundant, sent, max(memory)

    def _states(self, choice: Choice) -> Iterator[list[Chunk]]:
        """What lies on each device of each state of each parameter; ZeRO gives the data devices
        equal shares of whole bytes, as near as may be."""
        for parameter, use in self._own_parameters(choice):
            where = choice.lie(parameter.shape, use)
            for item, stage in zip(self.conditions.state_bytes, (3, 2, 1), strict=True):
                shares = choice.degree("d") if self.conditions.zero_stage >= stage else 1
                chunks: list[Chunk] = []
                for block, at in zip(where, coordinates(choice.degrees), strict=True):
                    share, size = at["d"] % shares, elements(block) * item
                    chunks.append(((block, share), size // shares + (share < size % shares)))
                yield chunks

    def _counted(self, choice: Choice) -> Iterator[tuple[Lie, int]]:
        """The activations whose copies count, and the bytes of an element."""
        found = [] if choice.way.is_view else [*zip(self._outputs, choice.way.outputs, strict=True)]
        if choice.way.counts_inputs:
            found += zip(self._inputs, choice.way.inputs, strict=True)
        for tensor, use in found:
            yield choice.lie(tensor.shape, use), DTYPE_BYTES[tensor.dtype]

    def _activations(self, choice: Choice) -> Iterator[tuple[Lie, int]]:
        """What is kept for the backward, and the bytes of an element."""
        for tensor, use in zip(self._outputs, choice.way.outputs, strict=True):
            if tensor.name in self._kept and not choice.way.is_view:
                yield choice.lie(tensor.shape, use), DTYPE_BYTES[tensor.dtype]
        for array in choice.way.extras:
            yield choice.lie(array.shape, Use(array.names)), DTYPE_BYTES[array.dtype]

    def _redundant(self, chunks: Sequence[Chunk]) -> int:
        """All copies but one: of what the fullest device holds, or of everything."""
        copies = Counter(held for held, _ in chunks)
        if self.conditions.redundancy == "source":
            return max((copies[held] - 1) * size for held, size in chunks)
        return sum((copies[held] - 1) * size for held, size in dict(chunks).items())

    def _own_parameters(self, choice: Choice) -> Iterator[tuple[Parameter, Use]]:
        for parameter, use in zip(self.operator.parameters, choice.way.parameters, strict=True):
            if parameter.tied_to is None:
                yield parameter, use

    def _collectives(self, choice: Choice) -> Iterator[int]:
        """Bytes sent in each collective of one micro-batch, forward and backward.

        What lies apart is gathered before it is used, and scattered instead of added up
        everywhere.
        """
        way = choice.way
        uses = (*way.inputs, *way.outputs, *way.parameters)
        everything = [(use.names, choice.splits(use.names)) for use in uses]
        made = [(use.names, choice.splits(use.names)) for use in way.outputs]
        whole = {role for role, _ in way.reduced}
        for tensor, use in zip(self._outputs, way.outputs, strict=True):
            size = choice.size(tensor.shape, use.names) * DTYPE_BYTES[tensor.dtype]
            apart = "".join(use.apart.values())
            for role in choice.summed(use.names, everything):
                if role not in whole:
                    yield self._sent(choice, role, [size] * (1 if role in apart else 2))
            for role in apart:
                yield self._sent(choice, role, [size])
        for tensor, use in zip(self._inputs, way.inputs, strict=True):
            size = choice.size(tensor.shape, use.names) * DTYPE_BYTES[tensor.dtype]
            apart = "".join(use.apart.values())
            for role in apart:
                yield from [self._sent(choice, role, [size])] * (2 if use.kept else 1)
            if tensor.has_gradient:
                for role in choice.summed(use.names, made) + way.inner_sums:
                    yield self._sent(choice, role, [size] * (1 if role in apart else 2))
        for role, array in way.reduced:
            size = choice.size(array.shape, array.names) * DTYPE_BYTES[array.dtype]
            yield self._sent(choice, role, [size] * 2)
        for array in way.exchanged:
            # Each device parts its own share among all.
            share = choice.size(array.shape, array.names) * DTYPE_BYTES[array.dtype]
            yield self._sent(choice, "r", [share])

    def _gradient(self, choice: Choice, parameter: Parameter, use: Use) -> int:
        """Bytes sent to add up a parameter's gradient, and those that ZeRO moves instead."""
        weight, gradient, _ = self.conditions.state_bytes
        passes = self.conditions.micro_batches
        size = choice.size(parameter.shape, use.names)
        in_all = 0
        for role in self.gradient_sums(choice, use):
            rounds = [gradient, gradient]
            if role == "d":
                rounds = (
                    [gradient, gradient],
                    [gradient, weight],
                    [*[gradient] * passes, weight],
                    [gradient, weight, weight] * passes,
                )[self.conditions.zero_stage]
            in_all += self._sent(choice, role, [size * item for item in rounds])
        return in_all

    def gradient_sums(self, choice: Choice, use: Use) -> str:
        """The roles over which a parameter's gradient is partial."""
        made = [
            (own.names, choice.splits(own.names, own.apart if choice.way.adds_apart else None))
            for own in choice.way.outputs
        ]
        return choice.summed(use.names, made)

    def summing(self, choice: Choice, parameter: Parameter, use: Use) -> int:
        """Bytes sent where a borrowed parameter's gradient is added up by itself."""
        size = choice.size(parameter.shape, use.names) * self.conditions.state_bytes[1]
        return sum(self._sent(choice, role, [size] * 2) for role in self.gradient_sums(choice, use))

    def _sent(self, choice: Choice, role: str, arrays: Sequence[int]) -> int:
        """Bytes that a device sends to take arrays round the ring of a role's devices.

        An array is cut into as many pieces as there are devices, and each device passes on all but
        one of them. That makes a reduce-scatter or an all-gather, and twice an all-reduce. In time
        it takes longer where any group of the role's devices leaves its node.
        """
        count = choice.degree(role)
        pieces = (Fraction(size, count) for size in arrays for _ in range(count - 1))
        sent = math.ceil(sum(pieces, Fraction(0)))
        if self.conditions.communication == "volume" or not sent:
            return sent
        nodes: dict[Hashable, set[int]] = {}
        for device, at in enumerate(coordinates(choice.degrees)):
            group = tuple(place for own, place in at.items() if own != role)
            nodes.setdefault(group, set()).add(device // self.conditions.per_node)
        leaves = any(len(found) > 1 for found in nodes.values())
        return math.ceil(sent * (self.conditions.slowdown if leaves else 1.0))


def _meshes(devices: int, spare: int) -> list[Degrees]:
    sizes = range(1, devices + 1)
    return [
        (spare, d, r, c)
        for d in sizes
        if devices % (spare * d) == 0
        for r in sizes
        if devices % (spare * d * r) == 0
        for c in (devices // (spare * d * r),)
    ]
