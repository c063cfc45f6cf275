"""A transformer in plain JAX against what it is, and through the planner's solver."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from client.errors import InputError  # noqa: E402
from client.jax_extract import extract  # noqa: E402
from tests.unit.sharding.posted import document  # noqa: E402

HIDDEN, HEADS, INNER, LAYERS, WORDS = 64, 4, 256, 3, 96
TOKENS = jax.ShapeDtypeStruct((4, 8), jnp.int32)
SIZE = HIDDEN // HEADS


def layer_norm(x: Any, weights: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return centred * lax.rsqrt(variance + 1e-5) * weights["scale"] + weights["bias"]


def rms_norm(x: Any, weights: Any) -> Any:
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * weights["scale"]


def layer(x: Any, weights: Any) -> Any:
    normed = layer_norm(x, weights["norm1"])
    query, key, value = (jnp.einsum("bsh,had->basd", normed, weights[n]["w"]) for n in "qkv")
    scores = jnp.einsum("baqd,bakd->baqk", query, key) / SIZE**0.5
    context = jnp.einsum("baqk,bakd->baqd", jax.nn.softmax(scores, -1), value)
    x = x + jnp.einsum("basd,adh->bsh", context, weights["out"]["w"])
    normed = rms_norm(x, weights["norm2"])
    return x + jax.nn.gelu(normed @ weights["up"]["w"] + weights["up"]["b"]) @ weights["down"]["w"]


def model(weights: Any, tokens: Any) -> Any:
    x = weights["embed"]["w"][tokens]
    x, _ = lax.scan(lambda carry, own: (layer(carry, own), None), x, weights["layers"])
    return layer_norm(x, weights["norm"]) @ weights["embed"]["w"].T


def shapes(tree: Any, *before: int) -> Any:
    return {
        name: shapes(own, *before)
        if isinstance(own, dict)
        else jax.ShapeDtypeStruct((*before, *own), jnp.float32)
        for name, own in tree.items()
    }


NORM = {"scale": (HIDDEN,), "bias": (HIDDEN,)}
LAYER = {
    "norm1": NORM,
    "norm2": {"scale": (HIDDEN,)},
    "q": {"w": (HIDDEN, HEADS, SIZE)},
    "k": {"w": (HIDDEN, HEADS, SIZE)},
    "v": {"w": (HIDDEN, HEADS, SIZE)},
    "out": {"w": (HEADS, SIZE, HIDDEN)},
    "up": {"w": (HIDDEN, INNER), "b": (INNER,)},
    "down": {"w": (INNER, HIDDEN)},
}
WEIGHTS = {
    **shapes({"embed": {"w": (WORDS, HIDDEN)}, "norm": NORM}),
    "layers": shapes(LAYER, LAYERS),
}


def test_scan_over_layers_is_a_repeated_layer() -> None:
    found = extract(model, WEIGHTS, TOKENS)
    assert found.graph["repeat"]["count"] == LAYERS
    assert found.graph["repeat"]["input"] == "embed"
    kinds = [operator["kind"] for operator in found.graph["operators"]]
    known = {
        "embedding", "layer_norm", "rms_norm", "linear", "reshape", "transpose", "matmul",
        "softmax", "merge_heads", "scale", "gelu", "add",
    }  # fmt: skip
    assert set(kinds) == known
    assert kinds.count("linear") == 7
    weights = sum(leaf.size for leaf in jax.tree.leaves(WEIGHTS))
    assert found.report["totals"]["parameters"] == weights
    up = next(own for own in found.graph["operators"] if own["name"] == "layers.*.up")
    assert [p["shape"] for p in up["parameters"]] == [[HIDDEN, INNER], [INNER]]
    head = found.graph["operators"][-1]
    assert head["parameters"][0]["tied_to"] == "embed"


def test_products_count_their_flops() -> None:
    found = extract(model, WEIGHTS, TOKENS)
    tokens = 4 * 8
    per_layer = 2 * tokens * (4 * HIDDEN**2 + 2 * HIDDEN * INNER) + 4 * tokens * 8 * HIDDEN
    head = 2 * tokens * HIDDEN * WORDS
    assert found.report["totals"]["forward_flops"] == LAYERS * per_layer + head
    assert found.report["totals"]["saved_bytes"] is None


def test_graph_is_solved_and_verified() -> None:
    result = document(extract(model, WEIGHTS, TOKENS).request(devices=4))
    assert result["certificate"]["verified"]
    assert result["provenance"]["warnings"] == []


def test_branch_on_data_is_refused() -> None:
    def branching(weights: Any, x: Any) -> Any:
        return lax.cond(x.sum() > 0, lambda: x @ weights, lambda: x)

    square = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    with pytest.raises(InputError, match=r"lax\.cond.*jnp\.where"):
        extract(branching, square, square)
