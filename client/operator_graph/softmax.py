"""Softmax that a program writes out: exp(x - max) divided by its sum."""

from __future__ import annotations

from client.operator_graph.trace import Step, Trace, Value


def fuse_softmax(trace: Trace) -> None:
    """Turn every written-out softmax over the last dimension into one step."""
    for step in list(trace.steps):
        if step.operation != "div" or step not in trace.steps or len(step.inputs) != 2:
            continue
        over, total = step.inputs
        exponential = trace.made_by(over, "exp")
        summed = _behind(trace, total, "reshape", "expand")
        maker = trace.made_by(summed, "sum")
        if exponential is None or maker is None or maker.inputs[0] is not over:
            continue
        if maker.settings.get("last"):
            x = _shifted(trace, exponential.inputs[0])
            trace.replace(
                [step],
                Step(
                    "softmax", (x,), step.outputs, {}, step.module, step.module_kind, step.unit,
                    step.call,
                ),
            )  # fmt: skip


def _behind(trace: Trace, value: Value, *operations: str) -> Value:
    while (maker := trace.made_by(value, *operations)) is not None:
        value = maker.inputs[0]
    return value


def _shifted(trace: Trace, value: Value) -> Value:
    """x of x - max(x)."""
    maker = trace.made_by(value, "sub")
    if maker is None:
        return value
    x, least = maker.inputs
    largest = trace.made_by(_behind(trace, least, "reshape", "expand", "maximum"), "max")
    return x if largest is not None and x in largest.inputs else value
