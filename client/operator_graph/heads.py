"""Attention as programs write it: heads taken apart and merged, keys repeated for groups."""

from __future__ import annotations

from client.operator_graph.trace import Step, Trace, Value, fixed_sizes

SWAPPED = (0, 2, 1, 3)
"""[batch, sequence, heads, size] to [batch, heads, sequence, size] and back."""


def fuse_heads(trace: Trace) -> None:
    """Recognise packed projections, merged heads, repeated keys and transposed operands."""
    for step in list(trace.steps):
        if step not in trace.steps:
            continue
        if step.operation == "split":
            _packed_projection(trace, step)
        elif step.operation == "reshape":
            _merged_heads(trace, step)
        elif step.operation in ("attention", "matmul"):
            _without_repeats(trace, step)
            if step.operation == "matmul":
                _transposed_operand(trace, step)


def _packed_projection(trace: Trace, step: Step) -> None:
    """Queries, keys and values from one projection, each viewed as heads."""
    if len(step.outputs) != 3 or not step.settings.get("last") or len(step.output.shape) != 3:
        return
    ends = []
    for value in step.outputs:
        view = trace.only_reader(value)
        swap = trace.only_reader(view.output) if view is not None else None
        if view is None or swap is None or not _is_swap(swap):
            return
        if view.operation != "reshape" or view.output.shape[:2] != value.shape[:2]:
            return
        ends.append(swap)
    outputs = tuple(each.output for each in ends)
    views = [trace.only_reader(value) for value in step.outputs]
    settings = {"packing": "blocks", **fixed_sizes(step, *(view for view in views if view))}
    trace.replace(
        ends,
        Step(
            "split_heads", step.inputs, outputs, settings, step.module,
            step.module_kind, False, step.call,
        ),
    )  # fmt: skip


def _merged_heads(trace: Trace, step: Step) -> None:
    """[batch, heads, sequence, size] back to [batch, sequence, features]."""
    value = step.inputs[0]
    is_view = step.is_view
    copy = trace.made_by(value, "copy")
    if copy is not None and trace.only_reader(value) is step:
        value, is_view = copy.inputs[0], False
    swap = trace.made_by(value, "transpose")
    if swap is None or not _is_swap(swap) or trace.only_reader(value) is None:
        return
    batch, heads, sequence, size = swap.inputs[0].shape
    width = heads * size
    merged = step.output.shape
    if merged == (batch, sequence, width):
        trace.replace([step], _merge(step, swap.inputs[0], step.outputs, is_view))
    elif merged == (batch * sequence, width):
        whole = Value((batch, sequence, width), step.output.dtype, has_gradient=True)
        # What is read is the merged tensor with its leading dimensions flattened.
        trace.insert(_merge(step, swap.inputs[0], (whole,), is_view))
        flat = Step("reshape", (whole,), step.outputs, {}, step.module, is_view=True)
        trace.replace([step], flat)


def _merge(step: Step, x: Value, outputs: tuple[Value, ...], is_view: bool) -> Step:
    return Step(
        "merge_heads", (x,), outputs, {"is_view": is_view, **fixed_sizes(step)}, step.module,
        step.module_kind, False, step.call, is_view,
    )  # fmt: skip


def _is_swap(step: Step) -> bool:
    return step.operation == "transpose" and tuple(step.settings["order"]) == SWAPPED


def _without_repeats(trace: Trace, step: Step) -> None:
    """Keys and values that were repeated for each query of a group, as they were before."""
    inputs = tuple(
        value if number == 0 else _before_repeat(trace, value)
        for number, value in enumerate(step.inputs)
    )
    if inputs != step.inputs:
        repeated = Step(
            step.operation, inputs, step.outputs, {**step.settings, "repeated": True}, step.module,
            step.module_kind, step.unit, step.call, step.is_view, 0,
        )  # fmt: skip
        trace.replace([step], repeated)


def _before_repeat(trace: Trace, value: Value) -> Value:
    swap = trace.made_by(value, "transpose")
    if swap is not None and tuple(swap.settings["order"]) == (0, 1, 3, 2):
        return value
    merge = trace.made_by(value, "reshape")
    copies = trace.made_by(merge.inputs[0], "expand") if merge is not None else None
    apart = trace.made_by(copies.inputs[0], "reshape") if copies is not None else None
    if merge is None or copies is None or apart is None or len(value.shape) != 4:
        return value
    x = apart.inputs[0]
    batch, groups, *rest = x.shape
    wanted = (batch, groups, copies.output.shape[2], *rest)
    return x if copies.output.shape == wanted and len(x.shape) == 4 else value


def _transposed_operand(trace: Trace, step: Step) -> None:
    """A B^T of a B that is transposed in the program only."""
    a, b = step.inputs
    swap = trace.made_by(b, "transpose")
    dimensions = len(b.shape)
    if swap is None or dimensions < 2 or step.settings.get("transpose_b"):
        return
    if tuple(swap.settings["order"]) != (*range(dimensions - 2), dimensions - 1, dimensions - 2):
        return
    source = _before_repeat(trace, swap.inputs[0])
    settings = {**step.settings, "transpose_b": True}
    if source is not swap.inputs[0]:
        settings["repeated"] = True
    product = Step(
        "matmul", (a, source), step.outputs, settings, step.module, step.module_kind, step.unit,
        step.call,
    )  # fmt: skip
    trace.replace([step], product)
