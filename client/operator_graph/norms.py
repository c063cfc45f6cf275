"""Normalisations that a program writes out: x / sqrt(mean(x²) + ε), (x - mean) / deviation."""

from __future__ import annotations

from client.operator_graph.trace import Shape, Step, Trace, Value

_STATISTICS = ("add", "mean", "sum", "div", "mul", "var", "cast", "reshape", "expand", "maximum")
_FARTHEST = 12
"""Steps between the square root and the normalised tensor; more are no normalisation."""


def fuse_norms(trace: Trace) -> None:
    """Turn every written-out normalisation over the last dimension into one step."""
    for step in list(trace.steps):
        if step.operation == "rsqrt" and step in trace.steps and step.output.has_gradient:
            _fuse(trace, step)


def _fuse(trace: Trace, root: Step) -> None:
    found = _normalised(trace, root)
    if found is None:
        return
    x, centred = found
    scale = root.output
    parameters: list[Value] = []
    # Flax multiplies the statistic by the weight first, and the tensor by both.
    while (step := trace.only_reader(scale)) is not None and scale.shape != x.shape:
        if step.operation in ("reshape", "expand"):
            scale = step.output
        elif step.operation == "mul" and (weight := _weight(step, x.shape)) is not None:
            parameters.append(weight)
            scale = step.output
        elif step.operation == "mul" and x in _sources(trace, step.inputs):
            scale = step.output
        else:
            return
    if scale.shape != x.shape:
        return
    last = trace.maker(scale)
    assert last is not None
    while (reader := trace.only_reader(last.output)) is not None:
        if reader.operation == "mul" and (weight := _weight(reader, x.shape)) is not None:
            parameters.append(weight)
        elif centred and reader.operation == "add" and (bias := _weight(reader, x.shape)):
            parameters.append(bias)
        elif reader.operation != "cast":
            break
        last = reader
    kind = "layer_norm" if centred else "rms_norm"
    if len(parameters) > (2 if centred else 1):
        return
    trace.replace(
        [last],
        Step(
            kind,
            (x, *parameters),
            last.outputs,
            {},
            root.module,
            root.module_kind,
            root.unit,
            root.call,
        ),
    )


def _normalised(trace: Trace, root: Step) -> tuple[Value, bool] | None:
    """The tensor whose rows are normalised, and whether their mean is taken off."""
    waiting, seen, sources = list(root.inputs), set[Value](), set[Value]()
    centred = False
    while waiting:
        value = waiting.pop()
        if value in seen or not value.has_gradient:
            continue
        seen.add(value)
        if len(seen) > _FARTHEST:
            return None
        maker = trace.maker(value)
        if maker is None:
            return None
        if maker.operation in ("mean", "sum", "var"):
            inner, off = _undressed(trace, maker.inputs[0])
            sources.add(inner)
            centred = centred or off or maker.operation == "var"
            if maker.settings.get("last") is not True:
                return None
        elif maker.operation in _STATISTICS:
            waiting += maker.inputs
        else:
            return None
    return (sources.pop(), centred) if len(sources) == 1 else None


def _undressed(trace: Trace, value: Value) -> tuple[Value, bool]:
    """Behind squares, casts and the subtraction of a mean; whether there was one."""
    centred = False
    while (maker := trace.maker(value)) is not None:
        activations = [each for each in maker.activations if each.shape == value.shape]
        squares = maker.operation == "mul" and set(maker.inputs) == set(activations)
        minus_mean = maker.operation == "sub" and any(
            each.shape != value.shape and each.has_gradient for each in maker.inputs
        )
        if len(set(activations)) != 1 or not (
            maker.operation in ("pow", "square", "cast", "abs") or squares or minus_mean
        ):
            break
        centred = centred or minus_mean
        value = activations[0]
    return value, centred


def _sources(trace: Trace, values: tuple[Value, ...]) -> set[Value]:
    return {_undressed(trace, value)[0] for value in values}


def _weight(step: Step, shape: Shape) -> Value | None:
    """The parameter along the last dimension that a step multiplies or adds."""
    found = [value for value in step.inputs if value.is_parameter]
    if len(found) != 1 or found[0].shape[-1:] != shape[-1:]:
        return None
    elements = 1
    for size in found[0].shape:
        elements *= size
    return found[0] if elements == shape[-1] else None
