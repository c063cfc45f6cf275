"""The operators of one transformer layer.

Shapes and parameters follow Vaswani et al. 2017 (arXiv 1706.03762), with grouped-query attention
(Ainslie et al. 2023, arXiv 2305.13245), gated feed-forward (Shazeer 2020, arXiv 2002.05202) and
experts (Jiang et al. 2024, arXiv 2401.04088) where the model has them.
"""

from __future__ import annotations

from planner.cost.model import NormPlacement
from planner.sharding.graph import Parameter, Tensor
from planner.sharding.transformer.builder import TransformerBuilder


def add_layer(build: TransformerBuilder, x: Tensor) -> Tensor:
    """Self-attention and feed-forward, each with a residual addition; gives the layer's output."""
    pre_norm = build.model.norm_placement is NormPlacement.PRE
    attended = _attention(build, build.norm("ln1", x) if pre_norm else x)
    x = build.add("add1", "add", [x, build.dropout("dropout1", attended)], x.shape)
    if not pre_norm:
        x = build.norm("ln1", x)
    fed = _feed_forward(build, build.norm("ln2", x) if pre_norm else x)
    x = build.add("add2", "add", [x, build.dropout("dropout2", fed)], x.shape)
    return x if pre_norm else build.norm("ln2", x)


def _attention(build: TransformerBuilder, x: Tensor) -> Tensor:
    """One fused projection whose columns lie group by group, the queries of a group beside its
    key and value as in Megatron-LM, so that groups are what can be split."""
    model = build.model
    groups = model.kv_heads
    width = model.query_size + 2 * model.key_value_size
    projected = build.linear("qkv", x, width, bias=model.qkv_bias, units={"column_units": groups})
    per_query = (build.batch, model.heads, build.sequence, model.head_dim)
    per_group = (build.batch, groups, build.sequence, model.head_dim)
    query, key, value = build.add_many(
        "split_heads",
        "split_heads",
        [projected],
        {"query": per_query, "key": per_group, "value": per_group},
    )
    context = _attention_core(build, query, key, value)
    merged = build.add(
        "merge_heads", "merge_heads", [context], (build.batch, build.sequence, model.query_size)
    )
    return build.linear(
        "proj", merged, model.hidden_size, bias=model.biases, units={"row_units": groups}
    )


def _attention_core(build: TransformerBuilder, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Scaling and masking are part of the softmax, and of flash attention its own dropout."""
    if build.training.flash_attention:
        return build.add(
            "attention",
            "attention",
            [query, key, value],
            query.shape,
            attributes={"causal": build.model.causal},
        )
    square = (*query.shape[:3], build.sequence)
    scores = build.add("scores", "matmul", [query, key], square, attributes={"transpose_b": True})
    probabilities = build.add("softmax", "softmax", [scores], square)
    kept = build.dropout("attention_dropout", probabilities)
    return build.add("context", "matmul", [kept, value], query.shape)


def _feed_forward(build: TransformerBuilder, x: Tensor) -> Tensor:
    model = build.model
    if model.has_router:
        return _experts(build, x)
    ffn = model.ffn_hidden_size
    if model.gated:
        # Each feature's gate and up are neighbours, so that no split separates them.
        pairs = build.linear("fc1", x, 2 * ffn, bias=model.biases, units={"column_units": ffn})
        features = build.add("glu", "glu", [pairs], (*x.shape[:-1], ffn))
    else:
        sums = build.linear("fc1", x, ffn, bias=model.biases)
        features = build.add("gelu", "gelu", [sums], sums.shape)
    return build.linear("fc2", features, model.hidden_size, bias=model.biases)


def _experts(build: TransformerBuilder, x: Tensor) -> Tensor:
    """A router that weighs the experts of each token, and the experts, each a feed-forward."""
    model = build.model
    hidden, ffn, count = model.hidden_size, model.ffn_hidden_size, model.experts
    first = 2 * ffn if model.gated else ffn
    routing = {"experts": count, "experts_per_token": model.experts_per_token}
    weights = build.add(
        "router",
        "router",
        [x],
        (*x.shape[:-1], count),
        [Parameter("weight", (hidden, count))],
        attributes=routing,
    )
    parameters = [Parameter("weight1", (count, hidden, first))]
    if model.biases:
        parameters.append(Parameter("bias1", (count, first)))
    parameters.append(Parameter("weight2", (count, ffn, hidden)))
    if model.biases:
        parameters.append(Parameter("bias2", (count, hidden)))
    return build.add(
        "experts",
        "experts",
        [x, weights],
        x.shape,
        parameters,
        attributes={**routing, "gated": model.gated},
    )
