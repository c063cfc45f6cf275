"""Biases that a program adds to a linear layer's output by itself."""

from __future__ import annotations

from client.operator_graph.trace import Step, Trace


def fuse_biases(trace: Trace) -> None:
    """Make the addition of a weight along the last dimension part of the linear layer before it."""
    for step in list(trace.steps):
        if step.operation != "add" or step not in trace.steps or len(step.inputs) != 2:
            continue
        for product, bias in (step.inputs, step.inputs[::-1]):
            linear = trace.made_by(product, "linear")
            if linear is None or len(linear.inputs) != 2 or not bias.is_parameter:
                continue
            whole = bias.whole or bias
            alone = trace.only_reader(product) is step
            if alone and whole.shape == product.shape[-1:] and step.output.shape == product.shape:
                trace.replace(
                    [step],
                    Step(
                        "linear", (*linear.inputs, whole), step.outputs, linear.settings,
                        linear.module, linear.module_kind, linear.unit, linear.call,
                    ),
                )  # fmt: skip
                break
