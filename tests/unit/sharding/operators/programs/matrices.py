"""Linear layers, products of activations and convolutions."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.unit.sharding.operators.cases import Case, CaseBuilder
from tests.unit.sharding.operators.mesh import Array, Device, Program

Draw = st.DrawFn
Rng = np.random.Generator


def product_gradient(x: Array, dy: Array) -> Array:
    """Of a weight that leads from the last dimension of x to that of y."""
    return x.reshape(-1, x.shape[-1]).T @ dy.reshape(-1, dy.shape[-1])


def sum_rows(dy: Array) -> Array:
    """Of a bias."""
    return dy.reshape(-1, dy.shape[-1]).sum(axis=0)


def linear(draw: Draw, rng: Rng) -> Case:
    """Y = X W with or without a bias, in two or three dimensions."""
    rows = draw(st.sampled_from([(4,), (2, 4), (4, 6)]))
    k, n = draw(st.sampled_from([(4, 6), (6, 4), (4, 8)]))
    build = CaseBuilder("linear", rng, {"row_units": 2} if draw(st.booleans()) else {})
    build.input(*rows, k)
    build.output(*rows, n)
    build.parameter(k, n)
    if draw(st.booleans()):
        build.parameter(n)

    def whole(inputs: list[Array], weights: list[Array]) -> list[Array]:
        return [inputs[0] @ weights[0] + (weights[1] if len(weights) > 1 else 0)]

    def forward(device: Device, inputs: list[Array], weights: list[Array]) -> Program:
        (x,), (w, *bias) = inputs, weights
        if device.sequence_parallel:
            x = yield from device.all_gather("column", x, 1)
            y = yield from device.reduce_scatter("row", x @ w, 1)
            return [y + sum(bias)], []
        return [x @ w + (sum(bias) if device.is_first_of_row else 0)], []

    def backward(
        device: Device,
        inputs: list[Array],
        _outputs: list[Array],
        _kept: list[Array],
        weights: list[Array],
        gradients: list[Array],
    ) -> Program:
        (x,), (w, *bias), (dy,) = inputs, weights, gradients
        whole_dy = dy
        if device.sequence_parallel:
            whole_dy = yield from device.all_gather("row", dy, 1)
            x = yield from device.all_gather("column", x, 1)
        dx = whole_dy @ w.T
        if device.sequence_parallel:
            dx = yield from device.reduce_scatter("column", dx, 1)
        return [dx], [product_gradient(x, whole_dy), *(sum_rows(dy) for _ in bias)]

    return build.case(whole, forward, backward)


def matmul(draw: Draw, rng: Rng) -> Case:
    """A B with up to two batch dimensions, shared heads and a transposed B."""
    batch_a, batch_b = draw(
        st.sampled_from([((), ()), ((4,), (4,)), ((2, 4), (2, 4)), ((2, 4), (2, 2))])
    )
    m, k, n = draw(st.sampled_from([(4, 2, 6), (2, 6, 4)]))
    transposed = draw(st.booleans())
    build = CaseBuilder("matmul", rng, {"transpose_b": transposed})
    build.input(*batch_a, m, k)
    build.input(*batch_b, *((n, k) if transposed else (k, n)))
    build.output(*batch_a, m, n)

    def spread(a: Array, b: Array) -> Array:
        b = b.swapaxes(-1, -2) if transposed else b
        return np.repeat(b, a.shape[1] // b.shape[1], axis=1) if a.ndim == 4 else b

    def whole(inputs: list[Array], _weights: list[Array]) -> list[Array]:
        return [inputs[0] @ spread(*inputs)]

    def forward(_device: Device, inputs: list[Array], _weights: list[Array]) -> Program:
        return [inputs[0] @ spread(*inputs)], []
        yield

    def backward(
        _device: Device, inputs: list[Array], _o: object, _k: object, _w: object, dys: list[Array]
    ) -> Program:
        (a, b), (dc,) = inputs, dys
        da = dc @ spread(a, b).swapaxes(-1, -2)
        db = a.swapaxes(-1, -2) @ dc
        if a.ndim == 4:
            db = db.reshape(b.shape[0], b.shape[1], -1, *db.shape[-2:]).sum(axis=2)
        return [da, db.swapaxes(-1, -2) if transposed else db], []
        yield

    return build.case(whole, forward, backward)


def conv(draw: Draw, rng: Rng) -> Case:
    """One or two spatial dimensions, no padding, with or without groups and bias."""
    spatial, kernel = draw(st.sampled_from([((5,), (3,)), ((3, 4), (2, 2)), ((4,), (1,))]))
    groups = draw(st.sampled_from([1, 1, 2, 4]))
    kind = draw(st.sampled_from(["conv", f"conv{len(spatial)}d"]))
    batch, into, out = draw(st.sampled_from([(2, 4, 8), (4, 4, 4), (2, 8, 4)]))
    build = CaseBuilder(kind, rng, {"groups": groups} if groups > 1 else {})
    build.input(batch, into, *spatial)
    left = tuple(s - k + 1 for s, k in zip(spatial, kernel, strict=True))
    build.output(batch, out, *left)
    build.parameter(out, into // groups, *kernel)
    if draw(st.booleans()):
        build.parameter(out)

    def windows() -> list[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Kernel elements, and the part of the input that each meets."""
        return [
            (at, tuple(slice(k, k + size) for k, size in zip(at, left, strict=True)))
            for at in itertools.product(*map(range, kernel))
        ]

    def by_group(array: Array, groups: int, dimension: int) -> Array:
        shape = array.shape
        size = shape[dimension] // groups
        return array.reshape(*shape[:dimension], groups, size, *shape[dimension + 1 :])

    def convolved(x: Array, w: Array, groups: int) -> Array:
        xs, ws = by_group(x, groups, 1), by_group(w, groups, 0)
        y = sum(
            np.einsum("bgi...,goi->bgo...", xs[(..., *part)], ws[(..., *at)])
            for at, part in windows()
        )
        return y.reshape(x.shape[0], w.shape[0], *left)

    def shaped(bias: Array) -> Array:
        return bias.reshape(-1, *(1 for _ in left))

    def whole(inputs: list[Array], weights: list[Array]) -> list[Array]:
        return [convolved(inputs[0], weights[0], groups) + sum(map(shaped, weights[1:]))]

    def groups_of(device: Device) -> int:
        return groups // device.degree("column") if groups > 1 else 1

    def forward(device: Device, inputs: list[Array], weights: list[Array]) -> Program:
        y = convolved(inputs[0], weights[0], groups_of(device))
        once = groups > 1 or device.is_first_of_row
        return [y + (sum(map(shaped, weights[1:])) if once else 0)], []
        yield

    def backward(
        device: Device,
        inputs: list[Array],
        _outputs: list[Array],
        _kept: list[Array],
        weights: list[Array],
        gradients: list[Array],
    ) -> Program:
        (x,), (w, *bias), (dy,) = inputs, weights, gradients
        own = groups_of(device)
        xs, ws, dys = by_group(x, own, 1), by_group(w, own, 0), by_group(dy, own, 1)
        dx, dw = np.zeros_like(xs), np.zeros_like(ws)
        for at, part in windows():
            dx[(..., *part)] += np.einsum("bgo...,goi->bgi...", dys, ws[(..., *at)])
            moved = xs[(..., *part)].reshape(*xs.shape[:3], -1)
            dw[(..., *at)] = np.einsum("bgip,bgop->goi", moved, dys.reshape(*dys.shape[:3], -1))
        summed = dy.sum(axis=(0, *range(2, dy.ndim)))
        return [dx.reshape(x.shape)], [dw.reshape(w.shape), *(summed for _ in bias)]
        yield

    return build.case(whole, forward, backward)
