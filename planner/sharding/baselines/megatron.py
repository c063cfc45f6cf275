"""Megatron-LM's hand-made split: column-parallel, then row-parallel linear layers in each block."""

from __future__ import annotations

from collections.abc import Collection

from planner.sharding.baselines.baseline import Baseline, pick
from planner.sharding.build import Formulation
from planner.sharding.graph import Operator

NAME = "Megatron-LM"
MODELLED = (
    "Tensor parallelism inside a node as far as the shapes allow, data parallelism over the rest: "
    "a linear layer that reads a whole tensor is split by columns, one that reads a split one by "
    "rows; attention by heads, vocabulary by rows; norms, residual additions and the router on "
    "every tensor-parallel device (Shoeybi et al. 2019, section 3), or with `sequence_parallel` "
    "split by the sequence (Korthikanti et al. 2022)."
)
NOT_MODELLED = (
    "Fused kernels, overlap of gradient reduction, padding of the vocabulary, expert parallelism."
)

CONTRACTING = ("linear", "conv")
SHARING = ("attention", "matmul", "softmax", "cross_entropy", "router", "experts")
"""Kinds that go by columns whatever they read: heads, vocabulary, features inside the experts. The
router's columns repeat it."""
REPEATED = ("input", "layer_norm", "rms_norm", "embedding")
"""Kinds that go by rows: the same on all, but for the embedding, whose rows are its vocabulary."""
WHOLE_OUTPUTS = ("router", "experts")
"""Kinds whose outputs are whole although they go by columns."""


def megatron(formulation: Formulation) -> Baseline:
    """The largest tensor-parallel degree within a node that every operator allows."""
    devices = formulation.settings.devices
    reasons = []
    for tensor in range(min(devices.count, devices.devices_per_node), 0, -1):
        if devices.count % tensor or not devices.is_in_node(1, tensor):
            continue
        data = devices.count // tensor
        found = pick(formulation, names_of(formulation, data, tensor))
        if not isinstance(found, str):
            name = f"{NAME} (tensor {tensor}, data {data})"
            return Baseline(name, MODELLED, NOT_MODELLED, formulation, found)
        reasons.append(found)
    reason = "; ".join(dict.fromkeys(reasons))
    return Baseline(NAME, MODELLED, NOT_MODELLED, formulation, None, reason)


def names_of(formulation: Formulation, data: int, tensor: int) -> list[str]:
    """The strategy of each operator."""
    with_sequence = tensor > 1 and any(
        strategy.rule.suffix for own in formulation.strategies for strategy in own
    )
    by_column, by_row = f"d{data}-r1-c{tensor}", f"d{data}-r{tensor}-c1"
    names = []
    split: set[str] = set()
    for number, operator in enumerate(formulation.graph.operators):
        column = splits_columns(operator, split)
        if column and operator.kind not in WHOLE_OUTPUTS:
            split.update(operator.outputs)
        if with_sequence and operator.kind == "router":
            # Each device scores its own part of the sequence.
            column = False
        name = by_column if column else by_row
        second = f"{name}-sp"
        known = {strategy.name for strategy in formulation.strategies[number]}
        names.append(second if with_sequence and second in known else name)
    return names


def splits_columns(operator: Operator, split: Collection[str]) -> bool:
    """Whether an operator's column devices share its work; `split` are the tensors split so far.

    Otherwise its row devices do: by contraction where there are weights, or by repeating it.
    """
    if operator.kind in SHARING:
        return True
    if operator.kind in REPEATED:
        return False
    reads_split = any(tensor in split for tensor in operator.inputs)
    return not reads_split if operator.kind in CONTRACTING else reads_split
