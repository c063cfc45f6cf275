"""Which linear layers can leave each device the columns that it computed.

Frameworks that split modules by their columns run what lies between two modules on each device's
own columns, as the program has it. That is right only where everything up to the layers that take
such parts, split by their rows, works on blocks of columns alone; and where a program takes the
output apart (gate and up, queries, keys and values in one), only if each device has its columns of
every part. Everywhere else the output has to be gathered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass

from planner.sharding.graph import Graph, Operator

Parts = tuple[int, ...]
"""Widths of the parts that a layer's output consists of, one behind the other."""

ELEMENTWISE = frozenset(
    {"gelu", "silu", "relu", "tanh", "sigmoid", "add", "mul", "dropout", "scale", "cast"}
)
OVER_THE_LAST = frozenset({"softmax", "layer_norm", "rms_norm"})
"""Kinds that reduce over the last dimension and treat all others alike."""
TAKING_APART = frozenset({"split", "chunk", "slice", "cat"})
"""Kinds that take a tensor apart, or put tensors together, along one of its dimensions."""
HEADS = 1
"""The dimension of [batch, heads, sequence, size] that attention does not mix."""


@dataclass(frozen=True)
class Columns:
    """`kept`: by operator, the parts of its output, of which each device keeps its columns.
    `fed`: operators by rows that take such parts; all others have to split what they read."""

    kept: Mapping[str, Parts]
    fed: frozenset[str]


@dataclass(frozen=True)
class Program:
    """What runs between the modules of a graph on how many devices.

    `packing` is how the parts of one tensor lie in it where the graph does not say: "groups" also
    for parts that are modules of their own. `fixed_heads`: the program has the number of all heads
    written into it, so that it cannot work on a part of them.
    """

    graph: Graph
    devices: int
    packing: str | None = None
    fixed_heads: bool = False


@dataclass(frozen=True)
class _Blocks:
    """A tensor of which devices have blocks along `dimension`, and by the linear layers that it
    comes from, into which parts their outputs were taken apart."""

    dimension: int
    sources: Mapping[str, Parts]


def kept_columns(
    program: Program,
    by_columns: Set[str],
    by_rows: Set[str],
    allows: Callable[[str, Parts], bool],
) -> Columns:
    """What devices can keep apart of the outputs of the linear layers `by_columns`.

    `allows` says of an operator whether the framework can give each device its columns of these
    parts. Layers that read one another's columns keep them together or not at all, and so do all
    calls of a module, so that those to be gathered are taken out until all that are left can.
    """
    keeping = set(by_columns)
    while True:
        walk = _Walk(program, keeping, by_rows)
        walk.run()
        wrong = walk.spoiled | {name for name, own in walk.kept.items() if not allows(name, own)}
        wrong |= keeping - walk.kept.keys()
        for name in by_rows - walk.fed.keys():
            for other in by_rows & walk.fed.keys():
                if module_of(name) == module_of(other):
                    wrong |= walk.fed[other]
        modules = set(map(module_of, wrong))
        wrong |= {name for name in keeping if module_of(name) in modules}
        if not wrong:
            return Columns(walk.kept, frozenset(walk.fed))
        keeping -= wrong


def module_of(name: str) -> str:
    """A module's further calls are operators of their own, with the number of the call."""
    return name.partition("@")[0]


class _Walk:
    """Follows the blocks of columns through the graph once."""

    def __init__(self, program: Program, keeping: Set[str], by_rows: Set[str]) -> None:
        self.kept: dict[str, Parts] = {}
        self.fed: dict[str, Set[str]] = {}
        self.spoiled: set[str] = set()
        self._program, self._graph = program, program.graph
        self._keeping, self._by_rows = keeping, by_rows
        self._blocks: dict[str, _Blocks] = {}

    def run(self) -> None:
        for operator in self._graph.operators:
            self._pass(operator)
        read = {tensor for operator in self._graph.operators for tensor in operator.inputs}
        repeat = self._graph.repeat
        for tensor, blocks in self._blocks.items():
            # What leaves the graph, or enters the next layer, is whole.
            if tensor not in read or (repeat is not None and tensor == repeat.output):
                self.spoiled |= blocks.sources.keys()

    def _pass(self, operator: Operator) -> None:
        reads = [self._blocks.get(tensor) for tensor in operator.inputs]
        sources = _merged(blocks for blocks in reads if blocks is not None)
        if sources is None:
            self._spoil(reads)
        elif operator.name in self._keeping:
            self._spoil(reads)
            output = self._graph.tensors[operator.outputs[0]]
            width = output.shape[-1]
            own = _Blocks(len(output.shape) - 1, {operator.name: (width,)})
            self._blocks[operator.outputs[0]] = own
        elif sources and operator.name in self._by_rows:
            self._feed(operator, reads[0], sources)
        elif sources:
            self._lead_through(operator, reads, sources)

    def _feed(
        self, operator: Operator, blocks: _Blocks | None, sources: Mapping[str, Parts]
    ) -> None:
        last = len(self._graph.tensors[operator.inputs[0]].shape) - 1
        if blocks is None or blocks.dimension != last:
            self.spoiled |= sources.keys()
            return
        self.fed[operator.name] = sources.keys()
        for name, parts in sources.items():
            if self.kept.setdefault(name, parts) != parts:
                self.spoiled.add(name)

    def _lead_through(
        self, operator: Operator, reads: list[_Blocks | None], sources: Mapping[str, Parts]
    ) -> None:
        shapes = [self._graph.tensors[tensor].shape for tensor in operator.inputs]
        outputs = [self._graph.tensors[tensor].shape for tensor in operator.outputs]
        dimensions = [None if blocks is None else blocks.dimension for blocks in reads]
        found = _target(operator, dimensions, shapes, outputs, self._program)
        parts = None if found is None else _parts(operator, outputs, self._program.packing)
        if found is None or parts is None:
            self.spoiled |= sources.keys()
            return
        if len(parts) > 1:
            if any(len(before) > 1 for before in sources.values()):
                self.spoiled |= sources.keys()
                return
            sources = dict.fromkeys(sources, parts)
        for tensor in operator.outputs:
            self._blocks[tensor] = _Blocks(found, sources)

    def _spoil(self, reads: list[_Blocks | None]) -> None:
        for blocks in reads:
            self.spoiled |= set() if blocks is None else blocks.sources.keys()


def _merged(reads: Iterator[_Blocks]) -> Mapping[str, Parts] | None:
    """The sources of all; None where one of them was taken apart in two ways."""
    found: dict[str, Parts] = {}
    for blocks in reads:
        for name, parts in blocks.sources.items():
            if found.setdefault(name, parts) != parts:
                return None
    return found


def _parts(
    operator: Operator, outputs: list[tuple[int, ...]], usual_packing: str | None
) -> Parts | None:
    """The parts that an operator takes its input apart into: one where it does not. None where it
    is not known how they lie in it."""
    if operator.kind == "glu" and len(operator.inputs) == 1:
        widths: Parts = (outputs[0][-1],) * 2
    elif operator.kind == "split_heads" and len(outputs) > 1:
        widths = tuple(shape[1] * shape[3] for shape in outputs)
    else:
        return (outputs[0][-1],)
    packing = operator.attributes.get("packing", usual_packing)
    if packing == "groups":
        return (sum(widths),)
    return widths if packing == "blocks" else None


def _target(
    operator: Operator,
    dimensions: list[int | None],
    shapes: list[tuple[int, ...]],
    outputs: list[tuple[int, ...]],
    program: Program,
) -> int | None:
    """The outputs' dimension that an operator makes of blocks along its inputs' `dimensions`
    (None: the input is whole). None where it needs more than blocks, or makes no blocks."""
    kind, first = operator.kind, dimensions[0]
    if operator.attributes.get("fixed_sizes", False):
        return None
    if kind in ELEMENTWISE or kind == "glu":
        return _aligned(dimensions, shapes, len(outputs[0]))
    if kind in ("attention", "matmul"):
        return HEADS if len(shapes[0]) == 4 and set(dimensions) == {HEADS} else None
    if kind in TAKING_APART:
        return _untouched(dimensions, [*shapes, *outputs])
    if first is None or any(other is not None for other in dimensions[1:]):
        return None
    if kind in OVER_THE_LAST:
        return first if first < len(shapes[0]) - 1 else None
    if kind == "split_heads":
        return HEADS if first == 2 and not program.fixed_heads else None
    if kind == "merge_heads":
        return 2 if first == HEADS else None
    if kind == "transpose":
        return _swapped(operator, first, shapes[0], outputs[0])
    if kind == "reshape":
        return _reshaped(first, shapes[0], outputs[0], program.devices)
    return None


def _aligned(
    dimensions: list[int | None], shapes: list[tuple[int, ...]], output: int
) -> int | None:
    """Dimensions are compared from the last one; what is whole has to be broadcast there."""
    missing = [output - len(shape) for shape in shapes]
    found = {own + m for own, m in zip(dimensions, missing, strict=True) if own is not None}
    if len(found) != 1:
        return None
    (target,) = found
    for own, shape, m in zip(dimensions, shapes, missing, strict=True):
        if own is None and target >= m and shape[target - m] > 1:
            return None
    return target


def _untouched(dimensions: list[int | None], shapes: list[tuple[int, ...]]) -> int | None:
    """The dimension of all blocks, if it is another one than that which changes."""
    (dimension, *others) = set(dimensions)
    if others or dimension is None or len({len(shape) for shape in shapes}) > 1:
        return None
    return dimension if len({shape[dimension] for shape in shapes}) == 1 else None


def _swapped(
    operator: Operator, source: int, shape: tuple[int, ...], output: tuple[int, ...]
) -> int | None:
    text = operator.attributes.get("dimension_map")
    if text is not None:
        pairs = (pair.split(":") for pair in str(text).replace(" ", "").split(","))
        return {int(a): int(b) for a, b in pairs}.get(source)
    # Without a map all sizes differ.
    return output.index(shape[source])


def _reshaped(
    source: int, shape: tuple[int, ...], output: tuple[int, ...], devices: int
) -> int | None:
    """Elements keep their order, so equal blocks of one dimension are equal blocks of another if
    as many elements come before: [.., 2 f] has its blocks in the 2 of [.., 2, f]."""
    before = math.prod(shape[:source])
    for target, size in enumerate(output):
        if math.prod(output[:target]) == before and size > 1:
            return target if size % devices == 0 else None
    return None
