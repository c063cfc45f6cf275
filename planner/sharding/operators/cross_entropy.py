"""Cross-entropy of logits [..., vocabulary] and target numbers, as one value per row or their mean.

Attributes: `ignore_index` and `label_smoothing`, without influence on costs.
"""

from __future__ import annotations

from planner.sharding.graph import DTYPE_BYTES, Graph, Operator
from planner.sharding.operators.checks import (
    path_of,
    require,
    require_dimensions,
    require_numbers,
    require_shape,
)
from planner.sharding.operators.rule import (
    Collective,
    Extra,
    InputRule,
    Kind,
    OutputRule,
    Roles,
    Rule,
    RuleOptions,
    Split,
)
from planner.sharding.operators.ways import Way, roles_that_split, usual_ways

FORWARD_FLOPS, BACKWARD_FLOPS = 5, 2
"""Per logit: largest, difference, exponential, sum, quotient; difference, product."""


def make_rules(operator: Operator, graph: Graph, options: RuleOptions) -> tuple[Rule, ...]:
    """Column splits the vocabulary, data the batch, row nothing or the sequence.

    Over column the largest logit, the sum of exponentials and the target's logit of every row are
    reduced, the backward needs nothing from others (Shoeybi et al. 2019, section 3; as in
    Megatron-LM's vocab_parallel_cross_entropy). Kept are the softmax, in the loss's dtype, and
    the targets. A mean over rows leaves partial sums on the roles that split them.
    """
    logits, targets = graph.inputs_of(operator)
    (loss,) = graph.outputs_of(operator)
    require_dimensions(operator, "inputs", 0, logits, 2)
    require_numbers(operator, 1, targets)
    rows_shape = logits.shape[:-1]
    require_shape(operator, "inputs", 1, targets.shape, rows_shape, "the logits")
    require(
        loss.shape == rows_shape[: len(loss.shape)],
        path_of(operator, "outputs", 0),
        f"has the shape {list(loss.shape)}, which is no mean of {list(rows_shape)} rows.",
        f"[], [{rows_shape[0]}] or {list(rows_shape)} would be.",
    )
    dtype = "fp64" if logits.dtype == "fp64" else "fp32"
    per_row = targets.elements * DTYPE_BYTES[dtype]

    def rule(way: Way) -> Rule:
        split_rows = way.split._replace(column=None)
        loss_split = Split(
            *(n if n is not None and n < len(loss.shape) else None for n in split_rows)
        )
        rows, kept = roles_that_split(split_rows), roles_that_split(loss_split)
        return Rule(
            units=way.units,
            limited_by=(*way.limited_by[:2], "vocabulary"),
            inputs=(InputRule(way.split), InputRule(split_rows, saved=True)),
            outputs=(
                OutputRule(
                    loss_split,
                    partial=Roles(*(a and not b for a, b in zip(rows, kept, strict=True))),
                ),
            ),
            extras=(Extra(logits.elements, loss.dtype, way.roles),),
            collectives=(Collective("all_reduce", "forward", "column", per_row, rows),) * 3,
            flops=FORWARD_FLOPS * logits.elements,
            backward_flops=BACKWARD_FLOPS * logits.elements,
            divides_work=way.roles,
            suffix=way.suffix,
        )

    return tuple(rule(way) for way in usual_ways(logits.shape, len(logits.shape) - 1, options))


KIND = Kind(
    "cross_entropy", make_rules, frozenset({"ignore_index", "label_smoothing"}), inputs=(2, 2)
)
