"""Transposes of transposes, which compilers write and nobody needs."""

from __future__ import annotations

from client.operator_graph.trace import Step, Trace


def compose_transposes(trace: Trace) -> None:
    """Make two transposes behind one another one, or none where the second undoes the first."""
    for step in list(trace.steps):
        if step.operation != "transpose" or step not in trace.steps:
            continue
        first = trace.made_by(step.inputs[0], "transpose")
        if first is None:
            continue
        order = tuple(first.settings["order"][place] for place in step.settings["order"])
        if order == tuple(range(len(order))):
            trace.substitute(step, first.inputs[0])
            continue
        both = Step(
            "transpose", first.inputs, step.outputs, {"order": order}, step.module,
            step.module_kind, step.unit, step.call, step.is_view and first.is_view,
        )  # fmt: skip
        trace.replace([step], both)
