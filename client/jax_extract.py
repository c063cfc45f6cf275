"""From a JAX function to the graph of a request for a sharding plan, through `jax.make_jaxpr`.

Needs JAX (``pip install jax``). Nothing is computed: arguments may be `jax.ShapeDtypeStruct`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax

from client.errors import InputError
from client.jax_values import (
    free_dimension,
    is_linear,
    layers_name,
    leaves_of,
    like,
    slice_of,
    value_of,
    view_of,
)
from client.operator_graph.extraction import Extraction
from client.operator_graph.recognise import recognise
from client.operator_graph.report import report
from client.operator_graph.trace import Loop, Shape, Step, Trace, Value

NAMES = {
    "logistic": "sigmoid", "integer_pow": "pow", "max": "maximum", "min": "minimum",
    "select_n": "where", "convert_element_type": "cast", "reduce_sum": "sum", "reduce_max": "max",
    "concatenate": "cat", "squeeze": "reshape", "expand_dims": "reshape", "top_k": "topk",
}  # fmt: skip
INLINED = ("jaxpr", "call_jaxpr", "fun_jaxpr")
NOTHING_HAPPENS = frozenset({"stop_gradient", "copy", "optimization_barrier"})


def extract(
    function: Callable[..., Any], parameters: Any, *inputs: Any, name: str | None = None
) -> Extraction:
    """The graph of ``function(parameters, *inputs)``.

    `parameters` and `inputs` are pytrees of arrays or `jax.ShapeDtypeStruct`; the weights' names
    are their paths in `parameters`. A `lax.scan` over stacked layers becomes one repeated layer.
    Bytes kept for the backward are not measured (None in the report), as XLA decides on them.

    Raises `InputError` where what runs depends on values (`lax.cond`, `lax.while_loop`), and for
    what has no graph.
    """
    closed = jax.make_jaxpr(function)(parameters, *inputs)
    values = list(leaves_of(parameters, "parameter", ""))
    for number, each in enumerate(inputs):
        values += leaves_of(each, "input", f"input{number}")
    walk = _Walk()
    walk.enter(
        closed.jaxpr.constvars, [value_of(each.aval, "constant") for each in closed.jaxpr.constvars]
    )
    walk.enter(closed.jaxpr.invars, values)
    walk.run(closed.jaxpr)
    outputs = [value for value in map(walk.read, closed.jaxpr.outvars) if value is not None]
    given = [value for value in values if value.origin == "input"]
    trace = Trace(walk.steps, given, [value for value in outputs if value is not None])
    trace.drop_unneeded()
    graph = recognise(trace, fold=False, loop=walk.loop)
    own_name = name or str(getattr(function, "__name__", "function"))
    return Extraction(graph.document(), report(graph, name=own_name, saved_bytes=None))


class _Walk:
    """Goes through a jaxpr and the ones that it calls, and writes down a step per equation."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.loop: Loop | None = None
        self._values: dict[Any, Value] = {}
        self._module = ""

    def enter(self, variables: Sequence[Any], values: Sequence[Value | None]) -> None:
        """Give the variables of a jaxpr their values."""
        for variable, value in zip(variables, values, strict=True):
            if value is not None:
                self._values[variable] = value

    def read(self, atom: Any) -> Value | None:
        """The value of a variable; None for a literal number."""
        return None if hasattr(atom, "val") else self._values.get(atom)

    def call(self, jaxpr: Any, arguments: Sequence[Value]) -> list[Value | None]:
        """What a jaxpr gives for these arguments."""
        self.enter(jaxpr.constvars, [value_of(v.aval, "constant") for v in jaxpr.constvars])
        self.enter(jaxpr.invars, arguments)
        self.run(jaxpr)
        return [self.read(each) for each in jaxpr.outvars]

    def run(self, jaxpr: Any) -> None:
        """All equations of a jaxpr whose inputs have been entered."""
        for equation in jaxpr.eqns:
            name = equation.primitive.name
            if name == "scan":
                self._scan(equation)
            elif name in ("while", "cond"):
                raise InputError(
                    f"lax.{name}",
                    "decides by the values of a tensor what runs next.",
                    "Use lax.scan for a fixed number of turns, and jnp.where on both results.",
                )
            elif (inner := _called(equation)) is not None:
                self._call(equation, inner)
            else:
                self._step(equation, name)

    def _call(self, equation: Any, closed: Any) -> None:
        jaxpr = getattr(closed, "jaxpr", closed)
        arguments = [self._argument(each) for each in equation.invars]
        # Functions with derivatives of their own may have constants in front.
        own = arguments[len(arguments) - len(jaxpr.invars) :]
        self.enter(equation.outvars, self.call(jaxpr, own))

    def _argument(self, atom: Any) -> Value:
        return self.read(atom) or value_of(atom.aval, "constant")

    def _scan(self, equation: Any) -> None:
        """Layers whose weights lie behind one another: one of them, so many times."""
        settings = equation.params
        constants, carries = settings["num_consts"], settings["num_carry"]
        arguments = [self._argument(each) for each in equation.invars]
        jaxpr = settings["jaxpr"].jaxpr
        entries = [v for v in arguments[constants : constants + carries] if v.is_activation]
        stacks = arguments[constants + carries :]
        layers = layers_name(stacks)
        per_turn = [slice_of(each, layers) for each in stacks]
        stacked = [v for v in equation.outvars[carries:] if str(v.aval.dtype).startswith("float")]
        if self.loop is not None or len(entries) != 1 or any(v.is_activation for v in per_turn):
            raise InputError(
                "lax.scan",
                "is no loop over layers: a graph has one, which carries one tensor from layer to "
                "layer and takes weights apart.",
                "Write other loops out.",
            )
        if stacked:
            raise InputError(
                "lax.scan", "gives back a tensor of every layer.", "Return the last one's only."
            )
        outside, self._module = self._module, layers
        results = self.call(jaxpr, [*arguments[: constants + carries], *per_turn])
        self._module = outside
        exits = [v for v in results[:carries] if v is not None and v.is_activation]
        self.enter(equation.outvars, results)
        self.loop = Loop(settings["length"], entries[0], exits[0], layers)

    def _step(self, equation: Any, name: str) -> None:
        inputs = [v for v in map(self.read, equation.invars) if v is not None]
        gradient = any(value.has_gradient for value in inputs) and name != "stop_gradient"
        outputs = [value_of(v.aval, gradient=gradient) for v in equation.outvars]
        if inputs and (
            name in NOTHING_HAPPENS
            or (name in ("convert_element_type", "reshape", "broadcast_in_dim")
                and (outputs[0].shape, outputs[0].dtype) == (inputs[0].shape, inputs[0].dtype))
        ):  # fmt: skip
            self.enter(equation.outvars, [inputs[0]])
            return
        weights = {v.whole or v for v in inputs if v.is_parameter}
        alone = len(weights) == 1 and not any(v.is_activation for v in inputs)
        if gradient and alone and name not in ("gather", "dot_general"):
            (weight,) = weights
            self.enter(equation.outvars, [view_of(weight, each) for each in outputs])
            return
        self.enter(equation.outvars, outputs)
        if name == "dot_general":
            self._product(equation, inputs, outputs[0])
        elif name == "gather" and _is_lookup(equation, inputs):
            self._write("embedding", [inputs[1], inputs[0]], outputs)
        else:
            operation, settings = _operation(equation, name, inputs, outputs)
            self._write(operation, inputs, outputs, settings)

    def _product(self, equation: Any, inputs: list[Value], output: Value) -> None:
        """A linear layer where one operand is a weight; else a batched product."""
        contracted, batch = equation.params["dimension_numbers"]
        if len(inputs) != 2:
            self._write("dot_general", inputs, [output])
            return
        x, y = inputs
        left, right = map(tuple, contracted)
        if not batch[0] and y.is_parameter and is_linear(x, y, right):
            self._linear(x, y, output, left, right)
        elif not batch[0] and x.is_parameter and is_linear(y, x, left):
            # The weight's features come first, as the transpose behind it says.
            free = len(x.shape) - len(left)
            lead = len(y.shape) - len(right)
            made = like(output, (*output.shape[free:], *output.shape[:free]))
            self._linear(y, x, made, right, left)
            order = (*range(lead, lead + free), *range(lead))
            self._write("transpose", [made], [output], {"order": order})
        elif len(batch[0]) == len(x.shape) - 2 == len(y.shape) - 2 and not y.is_parameter:
            self._matmul(x, y, output, (left[0], right[0]), batch)
        else:
            self._write("dot_general", inputs, [output])

    def _linear(
        self,
        x: Value,
        weight: Value,
        output: Value,
        of_x: tuple[int, ...],
        of_weight: tuple[int, ...],
    ) -> None:
        """Contracted dimensions come last in the weight's order; several of them, or several
        output dimensions, merged are the layer's."""
        along = [place for _, place in sorted(zip(of_weight, of_x, strict=True))]
        lead = [place for place in range(len(x.shape)) if place not in along]
        x = self._arranged(x, (*lead, *along))
        outside = x.shape[: len(lead)]
        features = math.prod(x.shape[len(lead) :])
        width = math.prod(weight.shape) // features
        first = 0 in of_weight
        if len(along) > 1:
            x = self._reshaped(x, (*outside, features))
        shape = (features, width) if first else (width, features)
        flat = Value(shape, weight.dtype, "parameter", weight.name, True, weight.whole or weight)
        made = output if output.shape == (*outside, width) else like(output, (*outside, width))
        self._write("linear", [x, flat], [made], {"layout": "in_out" if first else "out_in"})
        if made is not output:
            self._write("reshape", [made], [output], is_view=True)

    def _matmul(
        self, x: Value, y: Value, output: Value, contracted: tuple[int, int], batch: Any
    ) -> None:
        """Both operands with their batch dimensions first and the contracted one last."""
        a = self._arranged(
            x, (*batch[0], free_dimension(x, contracted[0], batch[0]), contracted[0])
        )
        b = self._arranged(
            y, (*batch[1], free_dimension(y, contracted[1], batch[1]), contracted[1])
        )
        self._write("matmul", [a, b], [output], {"transpose_b": True})

    def _arranged(self, x: Value, order: tuple[int, ...]) -> Value:
        if order == tuple(range(len(order))):
            return x
        out = like(x, tuple(x.shape[each] for each in order))
        self._write("transpose", [x], [out], {"order": order}, is_view=True)
        return out

    def _reshaped(self, x: Value, shape: Shape) -> Value:
        out = like(x, shape)
        self._write("reshape", [x], [out], is_view=True)
        return out

    def _write(
        self,
        operation: str,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        settings: dict[str, Any] | None = None,
        *,
        is_view: bool = False,
    ) -> None:
        views = is_view or operation in ("reshape", "transpose")
        self.steps.append(
            Step(
                operation, tuple(inputs), tuple(outputs), settings or {}, self._module,
                is_view=views,
            )
        )  # fmt: skip


def _called(equation: Any) -> Any:
    """The jaxpr that an equation calls: of jit, custom derivatives, checkpoints."""
    return next((equation.params[key] for key in INLINED if key in equation.params), None)


def _operation(
    equation: Any, name: str, inputs: list[Value], outputs: list[Value]
) -> tuple[str, dict[str, Any]]:
    settings: dict[str, Any] = {}
    plain = NAMES.get(name, name)
    if name == "transpose":
        settings["order"] = tuple(equation.params["permutation"])
    elif name in ("reduce_sum", "reduce_max"):
        settings["last"] = tuple(equation.params["axes"]) == (len(inputs[0].shape) - 1,)
    elif name == "split":
        settings["last"] = equation.params["axis"] == len(inputs[0].shape) - 1
    elif name == "broadcast_in_dim":
        same = math.prod(outputs[0].shape) == math.prod(inputs[0].shape) if inputs else False
        plain = "reshape" if same else "expand"
    elif name == "div" and hasattr(equation.invars[0], "val"):
        plain = "pow"
    elif name == "max" and any(getattr(each, "val", None) == 0 for each in equation.invars):
        plain = "relu"
    return plain, settings


def _is_lookup(equation: Any, inputs: list[Value]) -> bool:
    """Rows of a table by their numbers."""
    table = inputs[0]
    sizes = tuple(equation.params["slice_sizes"])
    return table.is_parameter and len(table.shape) == 2 and sizes == (1, table.shape[1])
