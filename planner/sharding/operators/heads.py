"""From a projection to attention heads and back: split_heads and merge_heads.

split_heads: [b, s, n] -> queries [b, a, s, d] alone, or with keys and values [b, kv, s, d] where
the projection holds all three. A device's part of its features is then whole groups of the queries
that share a key, the key and the value (as Megatron-LM stores them). Attribute of split_heads,
without influence on costs: `packing`, how the program has the three in one: "blocks" if all queries
come before all keys and these before all values, "groups" if they come group by group. And of
both: `fixed_sizes`, as of reshape.
merge_heads: [b, a, s, d] -> [b, s, a d]. Both copy, except that flash attention's output already
lies in memory as [b, s, a, d], of which the merged one is a view (so PyTorch's
scaled_dot_product_attention). Attribute of merge_heads: `is_view`, instead of that.
"""

from __future__ import annotations

from planner.sharding.graph import Graph, Operator
from planner.sharding.operators.checks import (
    flag_attribute,
    path_of,
    require,
    require_packing,
    require_shape,
)
from planner.sharding.operators.rule import (
    InputRule,
    Kind,
    OutputRule,
    Roles,
    Rule,
    RuleOptions,
    Split,
)

MERGED, HEADS = Split(data=0, column=2), Split(data=0, column=1)


def split_rules(operator: Operator, graph: Graph, _options: RuleOptions) -> tuple[Rule, ...]:
    """Column splits the features by groups of heads, data the batch, row nothing."""
    (x,), outputs = graph.inputs_of(operator), graph.outputs_of(operator)
    require_packing(operator)
    flag_attribute(operator, "fixed_sizes", False)
    require(
        len(x.shape) == 3,
        path_of(operator, "inputs", 0),
        f"{x.name!r} has the shape {list(x.shape)}.",
        "Give [batch, sequence, features].",
    )
    require(
        len(outputs) != 2,
        path_of(operator, "outputs"),
        "are two.",
        "Give one, or queries, keys and values.",
    )
    batch, sequence, features = x.shape
    for number, tensor in enumerate(outputs):
        require(
            len(tensor.shape) == 4 and (tensor.shape[0], tensor.shape[2]) == (batch, sequence),
            path_of(operator, "outputs", number),
            f"has the shape {list(tensor.shape)}, which does not fit {list(x.shape)}.",
            f"Give [{batch}, heads, {sequence}, head size].",
        )
    units = outputs[-1].shape[1]
    require(
        all(tensor.shape[1] == units for tensor in outputs[1:])
        and outputs[0].shape[1] % units == 0,
        path_of(operator, "outputs", 1),
        f"{[tensor.shape[1] for tensor in outputs]} heads do not make up groups.",
        "Keys and values have equally many, and they divide those of the queries.",
    )
    total = sum(tensor.shape[1] * tensor.shape[3] for tensor in outputs)
    require(
        total == features,
        path_of(operator, "outputs", 0),
        f"all heads together have {total} features, the input {features}.",
        f"Choose heads and head sizes that make up {features}.",
    )
    return (_rule(batch, units, MERGED, (HEADS,) * len(outputs)),)


def merge_rules(operator: Operator, graph: Graph, _options: RuleOptions) -> tuple[Rule, ...]:
    """Column splits the heads, data the batch, row nothing."""
    (x,), (y,) = graph.inputs_of(operator), graph.outputs_of(operator)
    flag_attribute(operator, "fixed_sizes", False)
    require(
        len(x.shape) == 4,
        path_of(operator, "inputs", 0),
        f"{x.name!r} has the shape {list(x.shape)}.",
        "Give [batch, heads, sequence, head size].",
    )
    batch, heads, sequence, size = x.shape
    require_shape(
        operator, "outputs", 0, y.shape, (batch, sequence, heads * size), f"heads {list(x.shape)}"
    )
    maker = graph.producer_of.get(x.name)
    flash = maker is not None and graph.operators[maker].kind == "attention"
    view = flag_attribute(operator, "is_view", flash)
    return (_rule(batch, heads, HEADS, (MERGED,), view),)


def _rule(
    batch: int, heads: int, source: Split, targets: tuple[Split, ...], is_view: bool = False
) -> Rule:
    return Rule(
        units=(batch, None, heads),
        limited_by=("batch", "copies", "groups of heads"),
        inputs=(InputRule(source),),
        outputs=tuple(OutputRule(target, is_view=is_view) for target in targets),
        divides_work=Roles(data=True, column=True),
    )


KINDS = (
    Kind("split_heads", split_rules, frozenset({"packing", "fixed_sizes"}), outputs=(1, 3)),
    Kind("merge_heads", merge_rules, frozenset({"is_view", "fixed_sizes"})),
)
