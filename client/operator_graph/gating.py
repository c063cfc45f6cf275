"""Gated linear units of one projection: activation(gate) times up, both parts of one tensor."""

from __future__ import annotations

from client.operator_graph.trace import Step, Trace, fixed_sizes


def fuse_gated(trace: Trace) -> None:
    """Make halves of one tensor, of which one is activated and multiplied by the other, a `glu`."""
    for step in list(trace.steps):
        if step.operation != "mul" or step not in trace.steps or len(step.inputs) != 2:
            continue
        for activated, up in (step.inputs, step.inputs[::-1]):
            gate = trace.made_by(activated, "silu", "gelu", "relu", "sigmoid")
            halves = trace.made_by(up, "split")
            if gate is None or halves is None or len(halves.outputs) != 2:
                continue
            if halves.settings.get("last") and {gate.inputs[0], up} == set(halves.outputs):
                settings = {"packing": "blocks", **fixed_sizes(halves)}
                trace.replace(
                    [step],
                    Step(
                        "glu", halves.inputs, step.outputs, settings, step.module,
                        step.module_kind, False, step.call,
                    ),
                )  # fmt: skip
                break
