"""Reshape, transpose, and operators of unknown kinds."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.unit.sharding.operators.cases import Case, CaseBuilder
from tests.unit.sharding.operators.mesh import Array, Device, Program

Draw = st.DrawFn
Rng = np.random.Generator


def reshape(draw: Draw, rng: Rng) -> Case:
    """Dimensions split and merged in all ways."""
    options = [
        ((4, 6), (4, 2, 3)),
        ((2, 4, 6), (8, 6)),
        ((8, 6), (2, 4, 6)),
        ((2, 3, 8), (2, 3, 4, 2)),
        ((2, 3, 4, 2), (2, 3, 8)),
        ((4, 6), (24,)),
        ((4, 6), (6, 4)),
        ((1, 4, 6), (4, 6)),
        ((4, 1, 6), (4, 6, 1)),
        ((2, 4, 6), (2, 4, 6)),
        ((2, 4, 6), (2, 2, 12)),
    ]
    source, target = draw(st.sampled_from(options))
    build = CaseBuilder("reshape", rng, {"is_view": False} if draw(st.booleans()) else {})
    build.input(*source)
    build.output(*target)

    def block_shape(
        device: Device, shape: tuple[int, ...], split: tuple[int | None, ...]
    ) -> list[int]:
        sizes = list(shape)
        for dimension, degree in zip(split, device.degrees, strict=True):
            if dimension is not None:
                sizes[dimension] //= degree
        return sizes

    def whole(inputs: list[Array], _weights: list[Array]) -> list[Array]:
        return [inputs[0].reshape(target)]

    def forward(device: Device, inputs: list[Array], _weights: list[Array]) -> Program:
        return [inputs[0].reshape(block_shape(device, target, device.rule.outputs[0].split))], []
        yield

    def backward(
        device: Device, _i: object, _o: object, _k: object, _w: object, dys: list[Array]
    ) -> Program:
        return [dys[0].reshape(block_shape(device, source, device.rule.inputs[0].split))], []
        yield

    return build.case(whole, forward, backward)


def transpose(draw: Draw, rng: Rng) -> Case:
    """Any order of the dimensions, said or found."""
    shape = draw(st.sampled_from([(4, 6), (2, 4, 6), (2, 3, 4, 6), (4, 4, 2)]))
    order = draw(st.permutations(range(len(shape))))
    target = [shape[at] for at in order]
    text = ",".join(f"{at}:{to}" for to, at in enumerate(order))
    said = len(set(shape)) < len(shape) or draw(st.booleans())
    attributes: dict[str, object] = {"dimension_map": text} if said else {}
    if draw(st.booleans()):
        attributes["column_dimension"] = draw(st.integers(1, len(shape) - 1))
    build = CaseBuilder("transpose", rng, attributes)
    build.input(*shape)
    build.output(*target)

    def whole(inputs: list[Array], _weights: list[Array]) -> list[Array]:
        return [inputs[0].transpose(order)]

    def forward(_device: Device, inputs: list[Array], weights: list[Array]) -> Program:
        return whole(inputs, weights), []
        yield

    def backward(
        _device: Device, _i: object, _o: object, _k: object, _w: object, dys: list[Array]
    ) -> Program:
        return [dys[0].transpose(np.argsort(order))], []
        yield

    return build.case(whole, forward, backward)


def unknown(draw: Draw, rng: Rng) -> Case:
    """y = x (w + shared) per sample, and the sum of all samples' y."""
    batch, size = draw(st.sampled_from([(4, 3), (6, 2)]))
    build = CaseBuilder("never heard of", rng, {"anything": 1})
    build.input(batch, size)
    build.input(size)
    build.output(batch, size)
    build.output(size)
    build.parameter(size)

    def whole(inputs: list[Array], weights: list[Array]) -> list[Array]:
        y = inputs[0] * (weights[0] + inputs[1])
        return [y, y.sum(axis=0)]

    def forward(_device: Device, inputs: list[Array], weights: list[Array]) -> Program:
        return whole(inputs, weights), []
        yield

    def backward(
        _device: Device,
        inputs: list[Array],
        _outputs: object,
        _kept: object,
        weights: list[Array],
        gradients: list[Array],
    ) -> Program:
        x, shared = inputs
        dy = gradients[0] + gradients[1]
        summed = (dy * x).sum(axis=0)
        return [dy * (weights[0] + shared), summed], [summed]
        yield

    return build.case(whole, forward, backward)
