"""Flash attention: queries, keys and values in, softmax(Q K^T) V out, in one operator.

Attributes: `causal`, the masked half is skipped; `scale`, without influence on costs.
"""

from __future__ import annotations

from planner.sharding.graph import Graph, Operator
from planner.sharding.operators.checks import (
    flag_attribute,
    path_of,
    require,
    require_shape,
)
from planner.sharding.operators.rule import (
    Extra,
    InputRule,
    Kind,
    OutputRule,
    Roles,
    Rule,
    RuleOptions,
    Split,
)


def make_rules(operator: Operator, graph: Graph, _options: RuleOptions) -> tuple[Rule, ...]:
    """Data splits the batch, column the heads by groups that share a key, and row nothing.

    Forward 2 products of the scores' size, backward 2.5 times that, as the scores are computed
    again; both half where causal (Dao 2023, section 4.1). Kept are Q, K, V, the output and each
    query's log-sum-exp.
    """
    q, k, v = graph.inputs_of(operator)
    (out,) = graph.outputs_of(operator)
    causal = flag_attribute(operator, "causal", False)
    for number, tensor in enumerate((q, k, v)):
        require(
            len(tensor.shape) == 4,
            path_of(operator, "inputs", number),
            f"{tensor.name!r} has the shape {list(tensor.shape)}.",
            "Give [batch, heads, sequence, head size].",
        )
    batch, heads, queries, size = q.shape
    kv_heads, keys = k.shape[1:3]
    require_shape(operator, "inputs", 1, k.shape, (batch, kv_heads, keys, size), "the queries")
    require_shape(operator, "inputs", 2, v.shape, (*k.shape[:3], v.shape[3]), "the keys")
    require(
        heads % kv_heads == 0,
        path_of(operator, "inputs", 1),
        f"{kv_heads} key heads cannot be shared evenly by {heads} query heads.",
        "Give a number of key heads that divides that of the query heads.",
    )
    require_shape(operator, "outputs", 0, out.shape, (*q.shape[:3], v.shape[3]), "the inputs")
    forward = 2 * batch * heads * queries * keys * (size + v.shape[3])
    if causal:
        forward //= 2
    split = Split(data=0, column=1)
    return (
        Rule(
            units=(batch, None, kv_heads),
            limited_by=("batch", "copies", "key and value heads"),
            inputs=(InputRule(split, saved=True),) * 3,
            outputs=(OutputRule(split, saved=True),),
            extras=(Extra(batch * heads * queries, "fp32", Roles(data=True, column=True)),),
            flops=forward,
            backward_flops=5 * forward // 2,
            divides_work=Roles(data=True, column=True),
        ),
    )


KIND = Kind("attention", make_rules, frozenset({"causal", "scale"}), inputs=(3, 3))
