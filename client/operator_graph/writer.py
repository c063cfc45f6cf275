"""Writing down a graph's operators and the tensors between them, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from client.errors import InputError
from client.operator_graph.flops import product_flops
from client.operator_graph.names import Names, own_name
from client.operator_graph.records import (
    GraphRecord,
    OperatorRecord,
    ParameterRecord,
    TensorRecord,
)
from client.operator_graph.trace import Shape, Step, Trace, Value


@dataclass(frozen=True)
class Held:
    """The graph's tensor that a value lies in. The value's leading dimensions may be merged:
    `shape` is the tensor's."""

    name: str
    shape: Shape


class GraphWriter:
    """The graph so far, and which of its tensors each value of the trace lies in."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._held: dict[Value, Held] = {}
        self._inputs: dict[str, TensorRecord] = {}
        self._operators: list[OperatorRecord] = []
        self._names = Names()
        self._notes: dict[str, None] = {}

    def graph(self) -> GraphRecord:
        """All that was written down. Raises `InputError` where that is nothing."""
        if not self._operators:
            raise InputError(
                "model", "has no operator that a gradient passes.", "Give one with weights."
            )
        results = {self._held[v].name for v in self._trace.outputs if v in self._held}
        return GraphRecord(
            list(self._inputs.values()), self._operators, results, notes=list(self._notes)
        )

    def note(self, text: str) -> None:
        """Something to know about the graph, said once."""
        self._notes[text] = None

    def lies_in(self, value: Value, held: Held) -> None:
        """A value that is a tensor already written down, maybe with merged dimensions."""
        self._held[value] = held

    def emit(
        self,
        step: Step,
        kind: str,
        inputs: Sequence[Held],
        shapes: Sequence[Shape],
        parameters: Sequence[ParameterRecord] = (),
        attributes: dict[str, Any] | None = None,
    ) -> None:
        """Write down an operator and what its step's outputs lie in."""
        name = self._names.of_operator(step, kind, parameters)
        if "note" in step.settings:
            self.note(step.settings["note"])
        outputs = []
        for number, (value, shape) in enumerate(zip(step.outputs, shapes, strict=True)):
            tensor = name if len(shapes) == 1 else f"{name}:{number}"
            outputs.append(TensorRecord(tensor, shape, value.dtype))
            self._held[value] = Held(tensor, shape)
        own = {k: v for k, v in (attributes or {}).items() if v is not False or k == "is_view"}
        self._operators.append(
            OperatorRecord(
                name,
                kind,
                [held.name for held in inputs],
                outputs,
                _distinct(parameters),
                own,
                step.module,
                step.call,
                product_flops(
                    kind, [held.shape for held in inputs], list(shapes),
                    [parameter.shape for parameter in parameters], own,
                ),
                step.saved_bytes,
                bool(own.get("is_view")),
            )
        )  # fmt: skip

    def hold(self, value: Value) -> Held:
        """The tensor that a value lies in; inputs become the graph's when they are first read."""
        if value not in self._held:
            if value.origin != "input":
                raise InputError(
                    "model", f"a tensor {list(value.shape)} comes from nowhere.", "Report this."
                )
            self._held[value] = self._input(value.name, value.shape, value.dtype)
        return self._held[value]

    def as_is(self, value: Value) -> Held:
        """A tensor of the value's own shape, which takes a view where dimensions were merged."""
        held = self.hold(value)
        if held.shape == value.shape:
            return held
        view = Value(value.shape, value.dtype, has_gradient=value.has_gradient)
        step = Step("reshape", (value,), (view,), is_view=True)
        maker = self._trace.maker(value)
        if maker is not None:
            step.module, step.call = maker.module, maker.call
        self.emit(step, "reshape", [held], [value.shape], attributes={"is_view": True})
        self._held[value] = self._held[view]
        return self._held[value]

    def numbers(self, value: Value, shape: Shape, module: str) -> Held:
        """Token numbers or targets, from outside: how a program derives them is no operator."""
        held = self._held.get(value)
        if held is not None and held.shape == shape:
            return held
        sources = self._sources(value)
        name = sources[0].name if len(sources) == 1 else f"{module}.numbers".lstrip(".")
        same = len(sources) == 1 and sources[0] is value and value.shape == shape
        self._held[value] = self._input(name, shape, value.dtype, shared=same)
        return self._held[value]

    def _sources(self, value: Value) -> list[Value]:
        """The inputs that a value is derived from."""
        found: dict[Value, None] = {}
        waiting, seen = [value], set[Value]()
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            if each.origin == "input":
                found[each] = None
            maker = self._trace.maker(each)
            if maker is not None:
                waiting += maker.inputs
        return list(found)

    def _input(self, name: str, shape: Shape, dtype: str, *, shared: bool = True) -> Held:
        record = TensorRecord(name, shape, dtype)
        if self._inputs.get(name) != record or not shared:
            record = replace(record, name=self._names.unique(name))
            self._inputs[record.name] = record
        return Held(record.name, shape)

    def parameter(
        self, value: Value, shape: Shape | None = None, name: str | None = None
    ) -> ParameterRecord:
        source = value.whole or value
        return ParameterRecord(name or own_name(source.name), shape or source.shape, source)


def _distinct(parameters: Sequence[ParameterRecord]) -> list[ParameterRecord]:
    """Each with a name of its own."""
    taken: dict[str, int] = {}
    own = []
    for parameter in parameters:
        count = taken[parameter.name] = taken.get(parameter.name, 0) + 1
        own.append(
            parameter if count == 1 else replace(parameter, name=f"{parameter.name}_{count}")
        )
    return own
