"""Chains of elementwise steps on one tensor, as one step each: activations, scaling, rotations."""

from __future__ import annotations

from client.operator_graph.trace import Step, Trace, Value

LINEAR = frozenset({"mul", "div", "neg", "add", "sub", "cast", "scale", "where", "rotate"})
"""Of one tensor and constants: their derivative needs none of the tensor's values."""

CURVED = frozenset(
    {
        "abs", "clamp", "cos", "erf", "exp", "gelu", "hardtanh", "leaky_relu", "log", "log1p",
        "pow", "relu", "sigmoid", "silu", "sin", "softplus", "sqrt", "square", "tanh", "mish",
        "elu", "maximum", "minimum", "logistic",
    }
)  # fmt: skip
KNOWN = frozenset({"gelu", "silu", "relu", "tanh", "sigmoid"})


def find_rotations(trace: Trace) -> None:
    """Rotary positions turn halves round, cat(-x[d/2:], x[:d/2]): one step that moves elements of
    the last dimension about."""
    for step in list(trace.steps):
        if step.operation != "cat" or step not in trace.steps or len(step.inputs) != 2:
            continue
        sources = set()
        for value in step.inputs:
            maker = trace.maker(value)
            if maker is not None and maker.operation == "neg":
                maker = trace.maker(maker.inputs[0])
            if maker is not None and maker.operation in ("slice", "split"):
                sources.add(maker.inputs[0])
        if len(sources) == 1:
            (x,) = sources
            if x.shape == step.output.shape:
                trace.replace([step], _like(step, "rotate", (x,)))


def fuse_pointwise(trace: Trace) -> None:
    """Make each connected chain of elementwise steps on one tensor a single step, where it has a
    single result."""
    root: dict[Value, Value] = {}
    chains: dict[Value, list[Step]] = {}
    for step in trace.steps:
        x = _only_source(step, root)
        if x is None:
            continue
        root[step.output] = x
        chain = [step]
        for value in dict.fromkeys(step.activations):
            if value in chains and chains[value] is not chain:
                chain = _joined(chains, chains[value], chain)
        chains[step.output] = chain
    done: set[int] = set()
    for value, chain in list(chains.items()):
        if id(chain) not in done and (len(chain) > 1 or chain[0].operation in CURVED - KNOWN):
            done.add(id(chain))
            _fuse(trace, root[value], chain)


def _joined(chains: dict[Value, list[Step]], old: list[Step], new: list[Step]) -> list[Step]:
    old += [step for step in new if step not in old]
    for step in new:
        if step.output in chains:
            chains[step.output] = old
    return old


def _only_source(step: Step, root: dict[Value, Value]) -> Value | None:
    """The tensor that an elementwise step is a function of; None where there are several."""
    if step.operation not in LINEAR | CURVED or len(step.outputs) != 1:
        return None
    if any(value.is_parameter for value in step.inputs) or not step.output.has_gradient:
        return None
    sources = {root.get(value, value) for value in step.activations}
    if len(sources) != 1:
        return None
    (x,) = sources
    return x if x.shape == step.output.shape else None


def _fuse(trace: Trace, x: Value, chain: list[Step]) -> None:
    exits = [
        step
        for step in chain
        if step.output in trace.outputs
        or any(reader not in chain for reader in trace.readers(step.output))
    ]
    if len(exits) != 1:
        return
    operations = {step.operation for step in chain}
    products = any(step.operation in ("mul", "div") and len(step.activations) > 1 for step in chain)
    last = exits[0]
    fused = _like(last, _kind(operations, products), (x,))
    fused.settings["written_out"] = ", ".join(sorted(operations))
    trace.replace([last], fused)


def _kind(operations: set[str], products: bool) -> str:
    """The nearest kind: linear ones keep nothing, those that are not known count like gelu.
    `products`: whether the tensor is multiplied by a function of itself."""
    curved = operations & CURVED
    if not curved and not products:
        return "cast" if operations == {"cast"} else "scale"
    if curved & {"sigmoid", "silu", "logistic"} and not curved & {"tanh", "erf"}:
        return "silu" if products or "silu" in curved else "sigmoid"
    if len(curved) == 1 and not products and curved <= KNOWN:
        return next(iter(curved))
    return "gelu"


def _like(step: Step, operation: str, inputs: tuple[Value, ...]) -> Step:
    return Step(
        operation, inputs, step.outputs, {}, step.module, step.module_kind, step.unit, step.call
    )
