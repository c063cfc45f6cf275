"""Batched products of two activations, C = A B: attention scores Q K^T and their product with V.

Attribute: `transpose_b`, B is [..., n, k] instead of [..., k, n].
"""

from __future__ import annotations

from planner.sharding.graph import Graph, Operator, Tensor
from planner.sharding.operators.checks import (
    flag_attribute,
    path_of,
    require,
    require_dimensions,
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


def make_rules(operator: Operator, graph: Graph, _options: RuleOptions) -> tuple[Rule, ...]:
    """Data splits the first batch dimension, column the second (heads), row what is contracted.

    Each head is a product of its own, so column leaves no partial sums. With one batch dimension
    column splits B's output dimension instead, and without any data splits A's rows: the product
    is then Y = X W with an activation for W, whose redundancy counts the copies of A and B.
    """
    a, b = graph.inputs_of(operator)
    (c,) = graph.outputs_of(operator)
    transposed = flag_attribute(operator, "transpose_b", False)
    heads, contracted = _checked(operator, a, b, c, transposed)
    last = len(a.shape) - 1
    b_contracted, b_free = (last, last - 1) if transposed else (last - 1, last)
    rows_of_a = len(a.shape) == 2
    columns_of_b = len(a.shape) < 4
    column = last if columns_of_b else 1
    product = 2 * c.elements * contracted
    rule = Rule(
        units=(a.shape[0], contracted, c.shape[-1] if columns_of_b else heads),
        limited_by=(
            "batch",
            "contracted features",
            "output features" if columns_of_b else "key and value heads",
        ),
        inputs=(
            InputRule(
                Split(data=0, row=last, column=None if columns_of_b else 1),
                partial_gradient=Roles(column=columns_of_b),
                saved=b.has_gradient,
            ),
            InputRule(
                Split(
                    data=None if rows_of_a else 0,
                    row=b_contracted,
                    column=b_free if columns_of_b else 1,
                ),
                partial_gradient=Roles(data=rows_of_a),
                saved=a.has_gradient,
            ),
        ),
        outputs=(OutputRule(Split(data=0, column=column), partial=Roles(row=True)),),
        counts_input_copies=columns_of_b,
        flops=product,
        backward_flops=2 * product,
    )
    return (rule,)


def _checked(
    operator: Operator, a: Tensor, b: Tensor, c: Tensor, transposed: bool
) -> tuple[int, int]:
    """The heads of B and the size of the contracted dimension."""
    require_dimensions(operator, "inputs", 0, a, 2)
    require_dimensions(operator, "inputs", 1, b, 2)
    k, n = (b.shape[-1], b.shape[-2]) if transposed else (b.shape[-2], b.shape[-1])
    # With grouped-query attention several heads of A share one of B.
    grouped = len(b.shape) >= 4 and len(a.shape) == len(b.shape) and a.shape[1] % b.shape[1] == 0
    batch = (a.shape[0], b.shape[1], *a.shape[2:-2]) if grouped else a.shape[:-2]
    wanted = (*batch, n, a.shape[-1]) if transposed else (*batch, a.shape[-1], n)
    require(
        b.shape == wanted,
        path_of(operator, "inputs", 1),
        f"{list(a.shape)} times {list(b.shape)}"
        f"{' (transposed)' if transposed else ''} is not a batched product.",
        f"{list(wanted)} would be. The second operand's heads may divide the first's, and "
        "`transpose_b` says that its last two dimensions are swapped; weights belong to linear.",
    )
    require_shape(operator, "outputs", 0, c.shape, (*a.shape[:-1], n), "the product")
    return (b.shape[1] if len(b.shape) >= 4 else 1), k


KIND = Kind("matmul", make_rules, frozenset({"transpose_b"}), inputs=(2, 2))
