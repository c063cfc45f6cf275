"""Attention in one operator, softmax, and the way to heads and back."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.unit.sharding.operators.cases import Case, CaseBuilder
from tests.unit.sharding.operators.mesh import Array, Device, Program

Draw = st.DrawFn
Rng = np.random.Generator


def normalised(scores: Array) -> Array:
    """Softmax over the last dimension."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def attention(draw: Draw, rng: Rng) -> Case:
    """With groups of heads that share a key, causal or not."""
    batch, heads, groups = draw(st.sampled_from([(2, 4, 4), (4, 4, 2), (2, 6, 3), (2, 4, 1)]))
    causal = draw(st.booleans())
    s, size, value_size = 3, 2, draw(st.sampled_from([2, 3]))
    build = CaseBuilder("attention", rng, {"causal": causal})
    build.input(batch, heads, s, size)
    build.input(batch, groups, s, size)
    build.input(batch, groups, s, value_size)
    build.output(batch, heads, s, value_size)

    def scores(q: Array, k: Array) -> Array:
        k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
        found = q @ k.swapaxes(-1, -2) / np.sqrt(size)
        return found + np.triu(np.full((s, s), -1e9), 1) if causal else found

    def whole(inputs: list[Array], _weights: list[Array]) -> list[Array]:
        q, k, v = inputs
        return [normalised(scores(q, k)) @ np.repeat(v, q.shape[1] // v.shape[1], axis=1)]

    def forward(_device: Device, inputs: list[Array], weights: list[Array]) -> Program:
        q, k, _ = inputs
        return whole(inputs, weights), [np.log(np.exp(scores(q, k)).sum(axis=-1))]
        yield

    def backward(
        _device: Device,
        inputs: list[Array],
        outputs: list[Array],
        kept: list[Array],
        _weights: list[Array],
        gradients: list[Array],
    ) -> Program:
        (q, k, v), (out,), (log_sum,), (dy,) = inputs, outputs, kept, gradients
        shared = q.shape[1] // k.shape[1]
        p = np.exp(scores(q, k) - log_sum[..., None])
        dp = dy @ np.repeat(v, shared, axis=1).swapaxes(-1, -2)
        ds = p * (dp - (dy * out).sum(axis=-1, keepdims=True)) / np.sqrt(size)

        def per_group(gradient: Array) -> Array:
            shape = gradient.shape
            return gradient.reshape(shape[0], -1, shared, *shape[2:]).sum(axis=2)

        dq = ds @ np.repeat(k, shared, axis=1)
        dk, dv = per_group(ds.swapaxes(-1, -2) @ q), per_group(p.swapaxes(-1, -2) @ dy)
        return [dq, dk, dv], []
        yield

    return build.case(whole, forward, backward)


def softmax(draw: Draw, rng: Rng) -> Case:
    """Scores of one to four dimensions."""
    shape = draw(st.sampled_from([(3,), (4, 3), (2, 4, 3), (2, 4, 3, 3)]))
    build = CaseBuilder("softmax", rng, {"scale": 0.5})
    build.input(*shape)
    build.output(*shape)

    def whole(inputs: list[Array], _weights: list[Array]) -> list[Array]:
        return [normalised(inputs[0])]

    def forward(_device: Device, inputs: list[Array], _weights: list[Array]) -> Program:
        return [normalised(inputs[0])], []
        yield

    def backward(
        _device: Device, _i: object, outputs: list[Array], _k: object, _w: object, dys: list[Array]
    ) -> Program:
        (y,), (dy,) = outputs, dys
        return [y * (dy - (dy * y).sum(axis=-1, keepdims=True))], []
        yield

    return build.case(whole, forward, backward)


def split_heads(draw: Draw, rng: Rng) -> Case:
    """One tensor of queries, or queries, keys and values group by group."""
    batch, heads, groups, size = draw(st.sampled_from([(2, 4, 2, 2), (4, 6, 6, 1), (2, 4, 4, 3)]))
    s = 3
    fused = draw(st.booleans())
    groups = groups if fused else heads
    counts = [heads // groups, 1, 1] if fused else [1]
    build = CaseBuilder("split_heads", rng)
    build.input(batch, s, groups * sum(counts) * size)
    for count in counts:
        build.output(batch, groups * count, s, size)

    def separated(x: Array) -> list[Array]:
        by_group = x.reshape(*x.shape[:2], -1, sum(counts), size)
        parts = np.split(by_group, np.cumsum(counts)[:-1], axis=3)
        return [p.reshape(*x.shape[:2], -1, size).swapaxes(1, 2) for p in parts]

    def whole(inputs: list[Array], _weights: list[Array]) -> list[Array]:
        return separated(inputs[0])

    def forward(_device: Device, inputs: list[Array], _weights: list[Array]) -> Program:
        return separated(inputs[0]), []
        yield

    def backward(
        _device: Device, _i: object, _o: object, _k: object, _w: object, dys: list[Array]
    ) -> Program:
        parts = []
        for dy, count in zip(dys, counts, strict=True):
            b, _, length, width = dy.shape
            parts.append(dy.swapaxes(1, 2).reshape(b, length, -1, count, width))
        together = np.concatenate(parts, axis=3)
        return [together.reshape(*together.shape[:2], -1)], []
        yield

    return build.case(whole, forward, backward)


def merge_heads(draw: Draw, rng: Rng) -> Case:
    """[b, a, s, d] to [b, s, a d]."""
    b, a, s, size = draw(st.sampled_from([(2, 4, 3, 2), (4, 6, 2, 1)]))
    build = CaseBuilder("merge_heads", rng)
    build.input(b, a, s, size)
    build.output(b, s, a * size)

    def whole(inputs: list[Array], _weights: list[Array]) -> list[Array]:
        x = inputs[0].swapaxes(1, 2)
        return [x.reshape(*x.shape[:2], -1)]

    def forward(_device: Device, inputs: list[Array], weights: list[Array]) -> Program:
        return whole(inputs, weights), []
        yield

    def backward(
        _device: Device, _i: object, _o: object, _k: object, _w: object, dys: list[Array]
    ) -> Program:
        dy = dys[0]
        return [dy.reshape(*dy.shape[:2], -1, size).swapaxes(1, 2)], []
        yield

    return build.case(whole, forward, backward)
