"""From the steps of a trace to the operators of a graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from client.errors import InputError
from client.operator_graph.records import GraphRecord
from client.operator_graph.trace import Step, Trace, Value
from client.operator_graph.writer import GraphWriter

POINTWISE = frozenset({"gelu", "silu", "relu", "tanh", "sigmoid", "scale", "cast", "dropout"})
PER_ROW = POINTWISE | {"layer_norm", "rms_norm", "softmax"}
"""Kinds that treat every row of the last dimension alike, however the others are arranged."""

PLAIN = {"sub": "add"}

PACKED = (
    "Queries, keys and values come from one projection: a plan that splits its columns gives each "
    "part whole heads of all three, which takes the weight's columns in that order."
)
REPEATED = (
    "Keys and values that the program repeats for each group of queries are read as they were "
    "before; what the copies take is in the measured bytes only."
)


class GraphBuilder:
    """Goes through a trace and writes down an operator for every step that a gradient passes.

    What depends on no input and no weight (masks, tables of positions) is no operator: it lies
    whole on every device and has no gradient.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._graph = GraphWriter(trace)

    def build(self) -> GraphRecord:
        """The graph. Raises `InputError` where an operator has nothing but weights to read."""
        for step in self._trace.steps:
            if any(value.has_gradient for value in step.outputs):
                self._lower(step)
        return self._graph.graph()

    def name_of(self, value: Value) -> str:
        """The graph's tensor that a value lies in, once the graph is built."""
        return self._graph.hold(value).name

    def _lower(self, step: Step) -> None:
        special: dict[str, Callable[[Step], None]] = {
            "linear": self._linear,
            "router": self._router,
            "experts": self._experts,
            "embedding": self._embedding,
            "cross_entropy": self._cross_entropy,
            "reshape": self._reshape,
            "transpose": self._transpose,
            "copy": self._copy,
        }
        if step.operation in special:
            special[step.operation](step)
        elif step.operation in PER_ROW:
            self._per_row(step)
        elif step.operation in ("add", "sub", "mul", "div", "neg", "rotate", "where"):
            self._arithmetic(step)
        elif step.operation in ("attention", "matmul", "conv", "merge_heads", "split_heads", "glu"):
            self._whole(step)
        else:
            self._unknown(step)

    def _linear(self, step: Step) -> None:
        x, weight, *bias = step.inputs
        held = self._graph.hold(x)
        if len(held.shape) < 2:
            self._unknown(step)
            return
        shape = weight.shape if step.settings["layout"] == "in_out" else weight.shape[::-1]
        parameters = [
            self._graph.parameter(weight, shape),
            *(self._graph.parameter(b) for b in bias),
        ]
        output = (*held.shape[:-1], shape[1])
        self._graph.emit(step, "linear", [held], [output], parameters, _class_of(step))

    def _router(self, step: Step) -> None:
        x, weight, *bias = step.inputs
        held = self._graph.hold(x)
        shape = weight.shape if step.settings["layout"] == "in_out" else weight.shape[::-1]
        parameters = [
            self._graph.parameter(weight, shape),
            *(self._graph.parameter(b) for b in bias),
        ]
        chosen = step.settings["experts_per_token"]
        shapes = [(*held.shape[:-1], chosen)] * 2
        attributes = {"experts": shape[1], "experts_per_token": chosen}
        self._graph.emit(step, "router", [held], shapes, parameters, attributes)

    def _experts(self, step: Step) -> None:
        x, weights, numbers, *parameters = step.inputs
        held = [self._graph.hold(value) for value in (x, weights, numbers)]
        if len({each.shape[:-1] for each in held}) > 1:
            held = [self._graph.as_is(value) for value in (x, weights, numbers)]
        own = [self._graph.parameter(value, value.shape) for value in parameters]
        self._graph.emit(step, "experts", held, [held[0].shape], own, step.settings)

    def _embedding(self, step: Step) -> None:
        numbers, *tables = step.inputs
        held = self._graph.numbers(numbers, step.output.shape[:-1], step.module)
        parameters = [self._graph.parameter(tables[0], tables[0].shape)]
        parameters += [
            self._graph.parameter(table, table.shape, "positions") for table in tables[1:]
        ]
        shapes = [step.output.shape]
        self._graph.emit(step, "embedding", [held], shapes, parameters, _class_of(step))

    def _cross_entropy(self, step: Step) -> None:
        logits, targets = step.inputs
        held = self._graph.hold(logits) if not step.output.shape else self._graph.as_is(logits)
        numbers = self._graph.numbers(targets, held.shape[:-1], step.module)
        self._graph.emit(step, "cross_entropy", [held, numbers], [step.output.shape])

    def _reshape(self, step: Step) -> None:
        x, target = self._graph.hold(step.inputs[0]), step.output.shape
        merges = len(x.shape) > 2 and target == (math.prod(x.shape[:-1]), x.shape[-1])
        if target == x.shape or (merges and step.is_view):
            self._graph.lies_in(step.output, x)
            return
        attributes = {
            "is_view": step.is_view,
            "fixed_sizes": bool(step.settings.get("fixed_sizes")),
        }
        self._graph.emit(step, "reshape", [x], [target], attributes=attributes)

    def _transpose(self, step: Step) -> None:
        x = self._graph.as_is(step.inputs[0])
        pairs = ",".join(f"{a}:{b}" for b, a in enumerate(step.settings["order"]))
        attributes = {"dimension_map": pairs, "is_view": step.is_view}
        self._graph.emit(step, "transpose", [x], [step.output.shape], attributes=attributes)

    def _copy(self, step: Step) -> None:
        x = self._graph.hold(step.inputs[0])
        self._graph.emit(step, "reshape", [x], [x.shape], attributes={"is_view": False})

    def _per_row(self, step: Step) -> None:
        activations = step.activations
        if len(activations) != 1:
            self._unknown(step)
            return
        (x,) = activations
        held = self._graph.hold(x)
        parameters = [self._graph.parameter(v) for v in step.inputs if v.is_parameter]
        attributes = {"p": step.settings["p"]} if "p" in step.settings else {}
        self._note_written_out(step)
        self._graph.emit(step, step.operation, [held], [held.shape], parameters, attributes)

    def _arithmetic(self, step: Step) -> None:
        if any(value.is_parameter for value in step.inputs):
            self._unknown(step, f"{step.operation}_parameter")
            return
        operands = [value for value in step.inputs if value.is_activation]
        if len(operands) == 1 and operands[0].shape == step.output.shape:
            held = self._graph.hold(operands[0])
            self._graph.emit(step, "scale", [held], [held.shape])
            return
        kind = PLAIN.get(step.operation, step.operation)
        if len(operands) != 2 or kind not in ("add", "mul"):
            self._unknown(step)
            return
        rows = [self._graph.hold(value) for value in operands]
        if rows[0].shape == rows[1].shape:
            self._graph.emit(step, kind, rows, [rows[0].shape])
            return
        self._graph.emit(step, kind, [self._graph.as_is(v) for v in operands], [step.output.shape])

    def _whole(self, step: Step) -> None:
        held = [self._graph.as_is(value) for value in step.inputs if not value.is_parameter]
        parameters = [self._graph.parameter(v) for v in step.inputs if v.is_parameter]
        wanted = ("causal", "transpose_b", "groups", "is_view", "packing", "fixed_sizes")
        attributes = {name: step.settings[name] for name in wanted if name in step.settings}
        if step.settings.get("repeated"):
            self._graph.note(REPEATED)
        if len(step.outputs) == 3:
            self._graph.note(PACKED)
        shapes = [value.shape for value in step.outputs]
        self._graph.emit(step, step.operation, held, shapes, parameters, attributes)

    def _unknown(self, step: Step, kind: str | None = None) -> None:
        held = [self._graph.as_is(value) for value in dict.fromkeys(step.activations)]
        parameters = [
            self._graph.parameter(v) for v in dict.fromkeys(step.inputs) if v.is_parameter
        ]
        if not held:
            raise InputError(
                step.module or "model",
                f"{step.operation} reads weights only, which no operator of a graph may.",
                "Work it out before the forward pass, or leave that part out.",
            )
        shapes = [value.shape for value in step.outputs]
        self._graph.emit(step, kind or step.operation, held, shapes, parameters)

    def _note_written_out(self, step: Step) -> None:
        steps = step.settings.get("written_out")
        if steps and step.operation not in ("scale", "cast"):
            self._graph.note(
                f"{step.module or 'model'}: {steps} on one tensor count as one {step.operation}, "
                "which keeps its input; what the program keeps as it is written is in the measured "
                "bytes."
            )


def _class_of(step: Step) -> dict[str, Any]:
    """The class of the module that has the weight, where it is not PyTorch's own for the kind."""
    found = step.settings.get("module_class")
    return {"module_class": found} if found else {}
