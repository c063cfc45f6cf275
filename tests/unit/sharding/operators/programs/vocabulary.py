"""Embedding and cross-entropy."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from tests.unit.sharding.operators.cases import Case, CaseBuilder
from tests.unit.sharding.operators.mesh import Array, Device, Program
from tests.unit.sharding.operators.programs.attention import normalised

Draw = st.DrawFn
Rng = np.random.Generator


def embedding(draw: Draw, rng: Rng) -> Case:
    """With or without learned positions."""
    rows = draw(st.sampled_from([(4,), (4, 4), (2, 6)]))
    vocabulary, hidden = draw(st.sampled_from([(6, 4), (8, 2), (12, 4)]))
    build = CaseBuilder("embedding", rng)
    build.input(*rows, value=rng.integers(0, vocabulary, rows))
    build.output(*rows, hidden)
    build.parameter(vocabulary, hidden)
    if draw(st.booleans()):
        build.parameter(rows[-1] + 2, hidden)

    def whole(inputs: list[Array], weights: list[Array]) -> list[Array]:
        (tokens,), (table, *positions) = inputs, weights
        return [table[tokens] + sum(p[: rows[-1]] for p in positions)]

    def own_positions(device: Device) -> slice:
        """The positions that the device's output has."""
        at, of = 0, 1
        if device.sequence_parallel:
            at, of = device.index("row"), device.degree("row")
        elif len(rows) == 1:
            at, of = device.index("data"), device.degree("data")
        size = rows[-1] // of
        return slice(at * size, (at + 1) * size)

    def local(device: Device, tokens: Array, table: Array) -> tuple[Array, Array]:
        """Token numbers within the device's part of the table, and which of them are in it."""
        numbers = tokens - device.index("row") * len(table)
        inside = (numbers >= 0) & (numbers < len(table))
        return np.where(inside, numbers, 0), inside

    def forward(device: Device, inputs: list[Array], weights: list[Array]) -> Program:
        (tokens,), (table, *positions) = inputs, weights
        numbers, inside = local(device, tokens, table)
        y = table[numbers] * inside[..., None]
        if device.sequence_parallel:
            y = yield from device.reduce_scatter("row", y, 1)
        if device.sequence_parallel or device.is_first_of_row:
            y = y + sum(p[own_positions(device)] for p in positions)
        return [y], []

    def backward(
        device: Device,
        inputs: list[Array],
        _outputs: object,
        _kept: object,
        weights: list[Array],
        gradients: list[Array],
    ) -> Program:
        (tokens,), (table, *positions), (dy,) = inputs, weights, gradients
        found = []
        for own in positions:
            dp = np.zeros_like(own)
            dp[own_positions(device)] = dy.sum(axis=tuple(range(dy.ndim - 2)))
            found.append(dp)
        if device.sequence_parallel:
            dy = yield from device.all_gather("row", dy, 1)
        numbers, inside = local(device, tokens, table)
        dt = np.zeros_like(table)
        np.add.at(dt, numbers[inside], dy[inside])
        return [None], [dt, *found]

    return build.case(whole, forward, backward)


def cross_entropy(draw: Draw, rng: Rng) -> Case:
    """One loss per row, their mean per sample, or that of all."""
    rows = draw(st.sampled_from([(4,), (4, 4), (2, 6)]))
    vocabulary = draw(st.sampled_from([4, 6]))
    shape = rows[: draw(st.integers(0, len(rows)))]
    build = CaseBuilder("cross_entropy", rng)
    build.input(*rows, vocabulary)
    build.input(*rows, value=rng.integers(0, vocabulary, rows))
    build.output(*shape)
    averaged = math.prod(rows[len(shape) :])
    axes = tuple(range(len(shape), len(rows)))

    def whole(inputs: list[Array], _weights: list[Array]) -> list[Array]:
        logits, targets = inputs
        chosen = np.take_along_axis(np.log(normalised(logits)), targets[..., None], -1)
        return [-chosen[..., 0].sum(axis=axes) / averaged]

    def local(device: Device, targets: Array, width: int) -> tuple[Array, Array]:
        numbers = targets - device.index("column") * width
        inside = (numbers >= 0) & (numbers < width)
        return np.where(inside, numbers, 0)[..., None], inside[..., None]

    def forward(device: Device, inputs: list[Array], _weights: list[Array]) -> Program:
        logits, targets = inputs
        largest = yield from device.all_reduce("column", logits.max(axis=-1), largest=True)
        powers = np.exp(logits - largest[..., None])
        total = yield from device.all_reduce("column", powers.sum(axis=-1))
        numbers, inside = local(device, targets, logits.shape[-1])
        own = (np.take_along_axis(logits, numbers, -1) * inside)[..., 0]
        chosen = yield from device.all_reduce("column", own)
        losses = np.log(total) + largest - chosen
        return [losses.sum(axis=axes) / averaged], [powers / total[..., None]]

    def backward(
        device: Device,
        inputs: list[Array],
        _outputs: object,
        kept: list[Array],
        _weights: object,
        gradients: list[Array],
    ) -> Program:
        softmax, targets, dy = kept[0], inputs[1], gradients[0]
        numbers, inside = local(device, targets, softmax.shape[-1])
        hit = np.zeros_like(softmax)
        np.put_along_axis(hit, numbers, inside.astype(float), -1)
        per_row = dy.reshape(*dy.shape, *(1 for _ in axes), 1) / averaged
        return [(softmax - hit) * per_row, None], []
        yield

    return build.case(whole, forward, backward)
