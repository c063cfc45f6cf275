"""Mixtures of experts: the router's choice of the best, and the experts' grouped products."""

from __future__ import annotations

from collections import defaultdict

from client.operator_graph.trace import Step, Trace, Value


def fuse_routers(trace: Trace) -> None:
    """A projection, its softmax and the choice of the k largest are one router; so is dividing
    the chosen weights by their sum."""
    for step in list(trace.steps):
        if step.operation == "topk" and step in trace.steps and step.output.has_gradient:
            _fuse_router(trace, step)


def _fuse_router(trace: Trace, step: Step) -> None:
    value = step.inputs[0]
    while (maker := trace.made_by(value, "softmax", "cast", "sigmoid")) is not None:
        value = maker.inputs[0]
    scores = trace.made_by(value, "linear")
    if scores is None:
        return
    weights, numbers = step.outputs
    ends, outputs = [step], (weights, numbers)
    for reader in trace.readers(weights):
        total = trace.made_by(reader.inputs[-1], "sum")
        if reader.operation == "div" and total is not None and total.inputs[0] is weights:
            trace.remove(total)
            ends, outputs = [step, reader], (reader.output, numbers)
            break
    settings = {
        "layout": scores.settings["layout"],
        "experts_per_token": weights.shape[-1],
    }
    trace.replace(
        ends,
        Step(
            "router", scores.inputs, outputs, settings, step.module, step.module_kind, step.unit,
            step.call,
        ),
    )  # fmt: skip


def fuse_experts(trace: Trace) -> None:
    """All steps of a module (and of those inside it) that has grouped products are one operator."""
    regions: dict[tuple[str, int], list[Step]] = defaultdict(list)
    for step in trace.steps:
        if step.operation == "grouped_matmul":
            regions[step.module, step.call].append(step)
    for (module, call), products in regions.items():
        region = [
            step
            for step in trace.steps
            if step.call == call and (step.module == module or step.module.startswith(f"{module}."))
        ]
        _fuse_region(trace, region, products)


def _fuse_region(trace: Trace, region: list[Step], products: list[Step]) -> None:
    made = {value for step in region for value in step.outputs}
    read = [value for step in region for value in step.inputs if value not in made]
    tokens = [v for v in dict.fromkeys(read) if v.is_activation]
    exits = [
        step
        for step in region
        if any(
            value in trace.outputs or any(each not in region for each in trace.readers(value))
            for value in step.outputs
        )
    ]
    parameters = [value for step in products for value in step.inputs if value.is_parameter]
    if len(exits) != 1 or len(tokens) != 2 or len(parameters) not in (2, 3):
        return
    x, weights = sorted(tokens, key=lambda value: value.shape[-1], reverse=True)
    numbers = _numbers(trace, weights)
    if numbers is None or exits[0].output.shape != x.shape:
        return
    last, chosen = exits[0], weights.shape[-1]
    experts, width = parameters[0].shape[0], parameters[0].shape[-1]
    features = parameters[-1].shape[-2]
    settings = {
        "experts": experts,
        "experts_per_token": chosen,
        "gated": len(parameters) == 3 or width == 2 * features,
    }
    trace.replace(
        [last],
        Step(
            "experts", (x, weights, numbers, *parameters), last.outputs, settings,
            products[0].module, products[0].module_kind, True, last.call,
        ),
    )  # fmt: skip


def _numbers(trace: Trace, weights: Value) -> Value | None:
    """The numbers of the chosen experts, which the router made beside their weights."""
    source = trace.maker(weights)
    while source is not None and source.operation != "router":
        activations = source.activations
        source = trace.maker(activations[0]) if activations else None
    return source.outputs[1] if source is not None else None
