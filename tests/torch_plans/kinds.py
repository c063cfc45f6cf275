"""What each kind of operator computes, on the blocks that one device holds.

Each function takes the graph, the operator, the inputs' and the parameters' blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch.nn import functional

from planner.sharding.graph import Graph, Operator

Tensors = Sequence[torch.Tensor]
Outputs = tuple[torch.Tensor, ...]
Compute = Callable[[Graph, Operator, Tensors, Tensors], Outputs]

EPSILON = 1e-5


def _linear(graph: Graph, operator: Operator, inputs: Tensors, weights: Tensors) -> Outputs:
    """The weight is [input features, output features]."""
    weight, *bias = weights
    return (functional.linear(inputs[0], weight.t(), *bias),)


def _layer_norm(graph: Graph, operator: Operator, inputs: Tensors, weights: Tensors) -> Outputs:
    return (functional.layer_norm(inputs[0], weights[0].shape, *weights, EPSILON),)


def _split_heads(graph: Graph, operator: Operator, inputs: Tensors, weights: Tensors) -> Outputs:
    """[batch, sequence, groups x (queries + key + value) x size] to three [batch, heads, sequence,
    size], which are views where that is possible."""
    query, key, _ = graph.outputs_of(operator)
    per_group, size = query.shape[1] // key.shape[1], query.shape[3]
    (x,) = inputs
    grouped = x.view(*x.shape[:2], -1, per_group + 2, size)
    parts = grouped.split([per_group, 1, 1], dim=3)
    return tuple(part.flatten(2, 3).transpose(1, 2) for part in parts)


def _matmul(graph: Graph, operator: Operator, inputs: Tensors, weights: Tensors) -> Outputs:
    """Scores are divided by the root of a head's size here and not in the softmax: the queries are
    smaller."""
    a, b = inputs
    per_group = a.shape[1] // b.shape[1]
    if per_group > 1:
        b = b.repeat_interleave(per_group, dim=1)
    if operator.attributes.get("transpose_b", False):
        size = graph.inputs_of(operator)[0].shape[3]
        return (torch.matmul(a * (1 / math.sqrt(size)), b.transpose(2, 3)),)
    return (torch.matmul(a, b),)


def _softmax(graph: Graph, operator: Operator, inputs: Tensors, weights: Tensors) -> Outputs:
    return (torch.softmax(inputs[0], dim=-1),)


def _attention(graph: Graph, operator: Operator, inputs: Tensors, weights: Tensors) -> Outputs:
    query, key, value = inputs
    return (
        functional.scaled_dot_product_attention(
            query,
            key,
            value,
            is_causal=bool(operator.attributes.get("causal", False)),
            enable_gqa=query.shape[1] != key.shape[1],
        ),
    )


def _merge_heads(graph: Graph, operator: Operator, inputs: Tensors, weights: Tensors) -> Outputs:
    """[batch, heads, sequence, size] to [batch, sequence, heads x size]."""
    return (inputs[0].transpose(1, 2).flatten(2, 3),)


def _add(graph: Graph, operator: Operator, inputs: Tensors, weights: Tensors) -> Outputs:
    return (inputs[0] + inputs[1],)


def _gelu(graph: Graph, operator: Operator, inputs: Tensors, weights: Tensors) -> Outputs:
    return (functional.gelu(inputs[0]),)


COMPUTE: Mapping[str, Compute] = {
    "linear": _linear,
    "layer_norm": _layer_norm,
    "split_heads": _split_heads,
    "matmul": _matmul,
    "softmax": _softmax,
    "attention": _attention,
    "merge_heads": _merge_heads,
    "add": _add,
    "gelu": _gelu,
}

AS_DTENSOR = frozenset({"linear", "layer_norm", "add", "gelu", "softmax"})
"""Kinds that DTensor computes in every way that the planner splits them, except for a split norm.
It can't merge batch and heads that are both split, as a product of 4-dimensional tensors does."""
