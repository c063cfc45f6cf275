"""Putting a graph together from operators in any order, with every mistake in it named."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable, Sequence
from itertools import islice

from planner.errors import SpecError
from planner.sharding.folding import layer_operators
from planner.sharding.graph import DTYPE_BYTES, Graph, Operator, Parameter, Repeat, Tensor

Path = tuple[str | int, ...]

LARGEST_ELEMENTS = 2**48
"""Of all tensors and parameters together: at no more than 32 bytes each (a parameter with
gradient and optimizer states takes at most 20), sums of bytes stay below 2^53 and are exact in
any JSON reader."""

MOST_COMPARED = 2_000
MOST_SHOWN = 8


class GraphReader:
    """Takes inputs and operators one by one, each with the place that it was given at."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inputs: list[Operator] = []
        self._operators: list[Operator] = []
        self._tensors: dict[str, Tensor] = {}
        self._made_by: dict[str, str] = {}
        self._named: dict[str, Operator] = {}

    def add_input(self, tensor: Tensor, place: Path) -> None:
        """A tensor from outside. Raises `SpecError` where its name or dtype will not do."""
        self._add_tensor(tensor, "the graph's inputs", place)
        operator = Operator(tensor.name, "input", (), (tensor.name,))
        self._named[tensor.name] = operator
        self._inputs.append(operator)

    def add_operator(self, operator: Operator, outputs: Iterable[Tensor], place: Path) -> None:
        """An operator and the tensors that it makes; its inputs may come later.

        Raises `SpecError` where a name is taken, or a dtype or the kind will not do.
        """
        name = operator.name
        if operator.kind == "input":
            raise SpecError(
                (*self._path, *place, "kind"),
                "is reserved for the graph's inputs.",
                "List the tensor in `inputs` and leave out this operator.",
            )
        if name in self._named:
            taken = self._named[name].kind == "input"
            raise SpecError(
                (*self._path, *place, "name"),
                f"{_shown(name)} is the name of {'an input' if taken else 'another operator'}.",
                "Rename one; each input counts as an operator of its name.",
            )
        self._named[name] = operator
        self._operators.append(operator)
        for number, tensor in enumerate(outputs):
            self._add_tensor(tensor, f"operator {_shown(name)}", (*place, "outputs", number))
        seen: set[str] = set()
        for number, parameter in enumerate(operator.parameters):
            if parameter.name in seen:
                raise SpecError(
                    (*self._path, *place, "parameters", number, "name"),
                    f"{_shown(parameter.name)} occurs twice in this operator.",
                    "Rename one of the two.",
                )
            seen.add(parameter.name)

    def graph(self, repeat: Repeat | None) -> Graph:
        """All that was added, sorted so that it can run.

        Raises `SpecError` where tensors are unknown, operators wait for each other, weights are
        tied to nothing, the whole is too large, or the repeated layer does not chain up.
        """
        self._check_inputs()
        for number, operator in enumerate(self._operators):
            for place, parameter in enumerate(operator.parameters):
                if parameter.tied_to is not None:
                    where = ("operators", number, "parameters", place, "tied_to")
                    self._check_tied(operator, parameter, parameter.tied_to, where)
        operators = (*self._inputs, *self._in_order())
        graph = Graph(operators, self._tensors, repeat)
        if repeat is not None:
            self._check_repeat(graph, repeat)
        self._check_size(graph)
        return graph

    def _add_tensor(self, tensor: Tensor, maker: str, place: Path) -> None:
        if tensor.dtype not in DTYPE_BYTES:
            raise SpecError(
                (*self._path, *place, "dtype"),
                f"there is no dtype {_shown(tensor.dtype)}.",
                f"Known: {', '.join(DTYPE_BYTES)}.",
            )
        if tensor.name in self._tensors:
            raise SpecError(
                (*self._path, *place, "name"),
                f"tensor {_shown(tensor.name)} already comes from {self._made_by[tensor.name]}.",
                "Rename one of the two; a tensor is made once.",
            )
        self._tensors[tensor.name] = tensor
        self._made_by[tensor.name] = maker

    def _check_inputs(self) -> None:
        for number, operator in enumerate(self._operators):
            for place, name in enumerate(operator.inputs):
                self._check_known(name, ("operators", number, "inputs", place))

    def _check_known(self, name: str, place: Path) -> None:
        if name not in self._tensors:
            raise SpecError(
                (*self._path, *place),
                f"there is no tensor {_shown(name)}.",
                f"{_nearest(name, self._tensors)}Name an input or an operator's output.",
            )

    def _check_tied(
        self, operator: Operator, parameter: Parameter, holder_name: str, place: Path
    ) -> None:
        where = (*self._path, *place)
        holder = self._named.get(holder_name)
        if holder is None:
            raise SpecError(
                where,
                f"there is no operator {_shown(holder_name)}.",
                f"{_nearest(holder_name, self._named)}Name the operator that holds the weight.",
            )
        if holder is operator:
            raise SpecError(where, "is the operator itself.", "Remove it: the weight is its own.")
        # An output layer has its embedding's weight the other way round.
        sizes = sorted(parameter.shape)
        if not any(p.tied_to is None and sorted(p.shape) == sizes for p in holder.parameters):
            raise SpecError(
                where,
                f"operator {_shown(holder_name)} holds no weight of the sizes "
                f"{list(parameter.shape)} itself.",
                "Name the operator that holds the weight, which is not tied to a third one.",
            )

    def _in_order(self) -> list[Operator]:
        """Topological, and of those that could run next always the one given first."""
        producer = {
            tensor: number
            for number, operator in enumerate(self._operators)
            for tensor in operator.outputs
        }
        needs = [
            {producer[name] for name in operator.inputs if name in producer}
            for operator in self._operators
        ]
        readers: list[list[int]] = [[] for _ in needs]
        for number, makers in enumerate(needs):
            for maker in makers:
                readers[maker].append(number)
        waiting = [len(makers) for makers in needs]
        ready = [number for number, count in enumerate(waiting) if count == 0]
        order = []
        while ready:
            number = heapq.heappop(ready)
            order.append(self._operators[number])
            for reader in readers[number]:
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    heapq.heappush(ready, reader)
        if len(order) < len(self._operators):
            raise self._cycle_error(needs, waiting)
        return order

    def _cycle_error(self, needs: Sequence[set[int]], waiting: Sequence[int]) -> SpecError:
        """Whoever still waits needs someone who does, so going backwards comes round."""
        number = next(number for number, count in enumerate(waiting) if count)
        walked: dict[int, int] = {}
        while number not in walked:
            walked[number] = len(walked)
            number = min(maker for maker in needs[number] if waiting[maker])
        cycle = [each for each, place in walked.items() if place >= walked[number]][::-1]
        first = min(cycle)
        cycle = cycle[cycle.index(first) :] + cycle[: cycle.index(first)]
        names = [_shown(self._operators[each].name) for each in cycle]
        between = ["…"] if len(names) > MOST_SHOWN else []
        shown = [*names[:MOST_SHOWN], *between, names[0]]
        return SpecError(
            (*self._path, "operators", first, "inputs"),
            f"operators need each other: {' → '.join(shown)}.",
            "Give a graph without cycles, such as the forward pass of one step.",
        )

    def _check_repeat(self, graph: Graph, repeat: Repeat) -> None:
        self._check_known(repeat.input, ("repeat", "input"))
        self._check_known(repeat.output, ("repeat", "output"))
        first, last = graph.tensors[repeat.input], graph.tensors[repeat.output]
        if (first.shape, first.dtype) != (last.shape, last.dtype):
            raise SpecError(
                (*self._path, "repeat", "output"),
                f"{list(last.shape)} {last.dtype} cannot take the place of the input's "
                f"{list(first.shape)} {first.dtype}.",
                "A layer's output has its input's shape and dtype.",
            )
        layer = layer_operators(graph)
        if graph.producer_of[repeat.output] not in layer:
            raise SpecError(
                (*self._path, "repeat", "output"),
                f"does not depend on the layer's input {_shown(repeat.input)}.",
                "Name the tensors that enter and leave the layer.",
            )

    def _check_size(self, graph: Graph) -> None:
        total = total_elements(graph)
        if total > LARGEST_ELEMENTS:
            raise SpecError(
                (*self._path, "operators"),
                f"have {total:,} elements in tensors and parameters together; at most "
                f"{LARGEST_ELEMENTS:,} are allowed.",
                "Check the shapes, or plan a part of the graph.",
            )


def total_elements(graph: Graph) -> int:
    """Of all tensors and parameters; where a layer repeats, at most this many."""
    tensors = sum(tensor.elements for tensor in graph.tensors.values())
    parameters = sum(
        parameter.elements for operator in graph.operators for parameter in operator.parameters
    )
    return (tensors + parameters) * (graph.repeat.count if graph.repeat else 1)


def _shown(name: str) -> str:
    """A name in a message, shortened where it is long."""
    return repr(name if len(name) <= 60 else f"{name[:59]}…")


def _nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the name that was probably meant, or nothing; not all of very many are tried."""
    near = difflib.get_close_matches(name, islice(known, MOST_COMPARED), n=1, cutoff=0.5)
    return f"Did you mean {_shown(near[0])}? " if near else ""
