"""Operators without weights that contract: elementwise, gated linear units, normalisation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from tests.unit.sharding.operators.cases import Case, CaseBuilder
from tests.unit.sharding.operators.mesh import Array, Device, Program

Draw = st.DrawFn
Rng = np.random.Generator

SHAPES = [(4,), (4, 6), (2, 4, 6), (2, 4, 3, 2)]
EPSILON = 1e-5


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x)."""
    return 1 / (1 + np.exp(-x))


def silu_gradient(x: Array) -> Array:
    """Derivative of x sigmoid(x)."""
    return sigmoid(x) * (1 + x * (1 - sigmoid(x)))


def gelu(x: Array) -> Array:
    """With the usual approximation by tanh."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu_gradient(x: Array) -> Array:
    """Derivative of the approximation."""
    t = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    inner = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x**2)
    return 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * inner


# Name: the function, and its derivative from what is kept, input or output.
UNARY: dict[str, tuple[Callable[[Array], Array], Callable[[Array, Array], Array]]] = {
    "gelu": (gelu, lambda x, _: gelu_gradient(x)),
    "silu": (lambda x: x * sigmoid(x), lambda x, _: silu_gradient(x)),
    "relu": (lambda x: np.maximum(x, 0), lambda _, y: (y > 0).astype(float)),
    "tanh": (np.tanh, lambda _, y: 1 - y**2),
    "sigmoid": (sigmoid, lambda _, y: y * (1 - y)),
    "scale": (lambda x: 0.5 * x, lambda _x, _y: np.float64(0.5)),
    "cast": (lambda x: x, lambda _x, _y: np.float64(1)),
}


def unary(draw: Draw, rng: Rng) -> Case:
    """One input, one output of its shape."""
    kind = draw(st.sampled_from(sorted(UNARY)))
    shape = draw(st.sampled_from(SHAPES))
    function, derivative = UNARY[kind]
    attributes = {"column_dimension": 2} if len(shape) > 2 and draw(st.booleans()) else {}
    build = CaseBuilder(kind, rng, attributes)
    build.input(*shape)
    # Something has a gradient, whatever the function, and nothing lies where it has a kink.
    build.values[0] += np.copysign(0.01, build.values[0])
    build.values[0].flat[0] = 1.0
    build.output(*shape)

    def whole(inputs: list[Array], _weights: list[Array]) -> list[Array]:
        return [function(inputs[0])]

    def forward(_device: Device, inputs: list[Array], _weights: list[Array]) -> Program:
        return [function(inputs[0])], []
        yield

    def backward(
        _device: Device,
        inputs: list[Array],
        outputs: list[Array],
        _kept: object,
        _weights: object,
        gradients: list[Array],
    ) -> Program:
        return [gradients[0] * derivative(inputs[0], outputs[0])], []
        yield

    return build.case(whole, forward, backward)


def dropout(draw: Draw, rng: Rng) -> Case:
    """The same mask on all devices that hold the same block."""
    shape = draw(st.sampled_from(SHAPES))
    build = CaseBuilder("dropout", rng, {"p": 0.5})
    build.input(*shape)
    build.output(*shape)
    mask = rng.random(shape) < 0.5
    mask.flat[0] = True

    def whole(inputs: list[Array], _weights: list[Array]) -> list[Array]:
        return [2 * mask * inputs[0]]

    def forward(device: Device, inputs: list[Array], _weights: list[Array]) -> Program:
        own = device.block(mask, device.rule.outputs[0].split)
        return [2 * own * inputs[0]], [own]
        yield

    def backward(
        _device: Device, _i: object, _o: object, kept: list[Array], _w: object, dys: list[Array]
    ) -> Program:
        return [2 * kept[0] * dys[0]], []
        yield

    return build.case(whole, forward, backward)


def unbroadcast(gradient: Array, shape: tuple[int, ...]) -> Array:
    """The sum over the dimensions along which an input was repeated."""
    missing = gradient.ndim - len(shape)
    summed = gradient.sum(axis=tuple(range(missing)))
    ones = [n for n, size in enumerate(shape) if size == 1]
    return summed.sum(axis=tuple(ones), keepdims=True) if ones else summed


def binary(draw: Draw, rng: Rng) -> Case:
    """Sums and products of tensors that broadcast, one of them perhaps a mask."""
    kind = draw(st.sampled_from(["add", "mul"]))
    first, second = draw(
        st.sampled_from(
            [
                ((4, 6), (4, 6)),
                ((2, 4, 6), (2, 4, 6)),
                ((2, 4, 6), (6,)),
                ((2, 4, 6), (4, 6)),
                ((2, 4, 6), (2, 1, 6)),
                ((2, 4, 1), (1, 4, 6)),
                ((2, 4, 3, 2), (2, 1, 3, 2)),
                ((6,), (4, 6)),
                ((2, 4, 6), ()),
            ]
        )
    )
    build = CaseBuilder(kind, rng)
    build.input(*first)
    masked = kind == "mul" and draw(st.booleans())
    build.input(*second, value=np.ones(second, int) if masked else None)
    shapes = [first, second]
    if kind == "add" and draw(st.booleans()):
        build.input(*first)
        shapes.append(first)
    build.output(*np.broadcast_shapes(first, second))

    def whole(inputs: list[Array], _weights: list[Array]) -> list[Array]:
        return [sum(inputs[1:], inputs[0]) if kind == "add" else inputs[0] * inputs[1]]

    def forward(_device: Device, inputs: list[Array], weights: list[Array]) -> Program:
        return whole(inputs, weights), []
        yield

    def backward(
        device: Device,
        inputs: list[Array],
        _outputs: object,
        _kept: object,
        _weights: object,
        gradients: list[Array],
    ) -> Program:
        found = []
        for number, own in enumerate(device.rule.inputs):
            if number == 1 and masked:
                found.append(None)
                continue
            gradient = gradients[0] * inputs[1 - number] if kind == "mul" else gradients[0]
            size = [
                length // device.degrees[own.split.index(at)] if at in own.split else length
                for at, length in enumerate(shapes[number])
            ]
            found.append(unbroadcast(gradient, tuple(size)))
        return found, []
        yield

    return build.case(whole, forward, backward)


def glu(draw: Draw, rng: Rng) -> Case:
    """Gate and up side by side in one tensor, or in two."""
    shape = draw(st.sampled_from([(4, 6), (2, 4, 6)]))
    paired = draw(st.booleans())
    build = CaseBuilder("glu", rng, {"activation": "silu"})
    for _ in range(1 if paired else 2):
        build.input(*shape[:-1], shape[-1] * (2 if paired else 1))
    build.output(*shape)

    def gate_and_up(inputs: list[Array]) -> list[Array]:
        return [inputs[0][..., 0::2], inputs[0][..., 1::2]] if paired else inputs

    def whole(inputs: list[Array], _weights: list[Array]) -> list[Array]:
        gate, up = gate_and_up(inputs)
        return [gate * sigmoid(gate) * up]

    def forward(_device: Device, inputs: list[Array], weights: list[Array]) -> Program:
        return whole(inputs, weights), []
        yield

    def backward(
        _device: Device,
        inputs: list[Array],
        _outputs: object,
        _kept: object,
        _weights: object,
        gradients: list[Array],
    ) -> Program:
        (gate, up), (dy,) = gate_and_up(inputs), gradients
        found = [dy * up * silu_gradient(gate), dy * gate * sigmoid(gate)]
        if paired:
            return [np.stack(found, axis=-1).reshape(inputs[0].shape)], []
        return found, []
        yield

    return build.case(whole, forward, backward)


def norm(draw: Draw, rng: Rng) -> Case:
    """Layer and root-mean-square normalisation, with as many parameters as there may be."""
    kind, most = draw(st.sampled_from([("layer_norm", 2), ("rms_norm", 1)]))
    shape = draw(st.sampled_from([(4, 6), (2, 4, 6)]))
    size = shape[-1]
    centred = kind == "layer_norm"
    build = CaseBuilder(kind, rng)
    build.input(*shape)
    build.output(*shape)
    for _ in range(draw(st.integers(0, most))):
        build.parameter(size)

    def scaled(x: Array, weights: list[Array]) -> Array:
        weight, *bias = weights or [np.float64(1)]
        return x * weight + sum(bias)

    def whole(inputs: list[Array], weights: list[Array]) -> list[Array]:
        x = inputs[0]
        x = x - x.mean(axis=-1, keepdims=True) if centred else x
        return [scaled(x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + EPSILON), weights)]

    def forward(device: Device, inputs: list[Array], weights: list[Array]) -> Program:
        (x,) = inputs
        sums = [x.sum(axis=-1)] if centred else []
        sums = yield from device.all_reduce("column", np.stack([*sums, (x**2).sum(axis=-1)]))
        *mean, square = sums / size
        mean = mean[0] if centred else np.zeros_like(square)
        inverse = 1 / np.sqrt(square - mean**2 + EPSILON)
        kept = np.stack([mean, inverse] if centred else [inverse])
        return [scaled((x - mean[..., None]) * inverse[..., None], weights)], [kept]

    def backward(
        device: Device,
        inputs: list[Array],
        _outputs: object,
        kept: list[Array],
        weights: list[Array],
        gradients: list[Array],
    ) -> Program:
        (x,), (dy,) = inputs, gradients
        *mean, inverse = kept[0][..., None]
        normal = (x - mean[0] if centred else x) * inverse
        g = dy * weights[0] if weights else dy
        sums = [g.sum(axis=-1)] if centred else []
        sums = yield from device.all_reduce("column", np.stack([*sums, (g * normal).sum(axis=-1)]))
        *mean_g, along = sums[..., None] / size
        dx = inverse * (g - (mean_g[0] if centred else 0) - normal * along)
        rows = tuple(range(x.ndim - 1))
        return [dx], [(dy * normal).sum(axis=rows), dy.sum(axis=rows)][: len(weights)]

    return build.case(whole, forward, backward)
