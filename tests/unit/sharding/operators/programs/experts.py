"""Mixture of experts: the router, and all experts with their exchange of tokens."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.unit.sharding.operators.cases import Case, CaseBuilder
from tests.unit.sharding.operators.mesh import Array, Device, Program
from tests.unit.sharding.operators.programs.attention import normalised
from tests.unit.sharding.operators.programs.matrices import product_gradient, sum_rows
from tests.unit.sharding.operators.programs.pointwise import sigmoid, silu_gradient

Draw = st.DrawFn
Rng = np.random.Generator


def best(scores: Array, chosen: int) -> Array:
    """Numbers of the largest scores."""
    return np.argsort(-scores, axis=-1)[..., :chosen]


def router(draw: Draw, rng: Rng) -> Case:
    """Weights of all experts or of the chosen ones, with or without bias."""
    rows = draw(st.sampled_from([(4,), (4, 4)]))
    hidden, experts, chosen = draw(st.sampled_from([(4, 4, 2), (6, 3, 1)]))
    dense = draw(st.booleans())
    build = CaseBuilder("router", rng, {"experts_per_token": chosen, "experts": experts})
    build.input(*rows, hidden)
    build.output(*rows, experts if dense else chosen)
    if not dense:
        build.output(*rows, chosen, dtype="int64")
    build.parameter(hidden, experts)
    if draw(st.booleans()):
        build.parameter(experts)
    # No small step may change which experts are the best, so scores lie one apart.
    x, (w, *bias) = build.values[0], build.parameter_values
    w[:] = np.linalg.qr(w)[0]
    scores = x @ w + sum(bias)
    order = np.argsort(np.argsort(scores, axis=-1), axis=-1)
    x += (order - scores) @ w.T

    def outputs(softmax: Array) -> tuple[list[Array], Array]:
        numbers = best(softmax, chosen)
        weights = np.take_along_axis(softmax, numbers, -1)
        if not dense:
            return [weights, numbers], numbers
        spread = np.zeros_like(softmax)
        np.put_along_axis(spread, numbers, weights, -1)
        return [spread], numbers

    def whole(inputs: list[Array], weights: list[Array]) -> list[Array]:
        return outputs(normalised(inputs[0] @ weights[0] + sum(weights[1:])))[0]

    def forward(device: Device, inputs: list[Array], weights: list[Array]) -> Program:
        (x,), (w, *bias) = inputs, weights
        scores = x @ w
        if not device.sequence_parallel:
            scores = yield from device.all_reduce("row", scores)
        softmax = normalised(scores + sum(bias))
        made, numbers = outputs(softmax)
        return made, [softmax, numbers] if dense else [softmax]

    def backward(
        _device: Device,
        inputs: list[Array],
        saved: list[Array],
        kept: list[Array],
        weights: list[Array],
        gradients: list[Array],
    ) -> Program:
        (x,), (w, *bias), softmax = inputs, weights, kept[0]
        numbers = kept[1] if dense else saved[1]
        dy = np.take_along_axis(gradients[0], numbers, -1) if dense else gradients[0]
        dp = np.zeros_like(softmax)
        np.put_along_axis(dp, numbers, dy, -1)
        ds = softmax * (dp - (dp * softmax).sum(axis=-1, keepdims=True))
        return [ds @ w.T], [product_gradient(x, ds), *(sum_rows(ds) for _ in bias)]
        yield

    return build.case(whole, forward, backward)


class FeedForward:
    """The experts' layers for a list of tokens, each with the number of its expert."""

    def __init__(self, gated: bool, apart: bool, biased: bool) -> None:
        self.gated, self.apart, self.biased = gated, apart, biased

    def named(self, weights: list[Array]) -> tuple[list[Array], list[Array], Array, list[Array]]:
        """First weights and their biases, last weight and its bias."""
        step = 2 if self.biased else 1
        *first, down = weights[::step]
        biases = weights[1::2] if self.biased else []
        return first, biases[:-1], down, biases[-1:]

    def inner(self, weights: list[Array], x: Array, e: Array) -> list[Array]:
        """What the activation reads, and what it makes."""
        first, biases, _, _ = self.named(weights)
        read = [np.einsum("th,thf->tf", x, w[e]) for w in first]
        if biases:
            read = [part + b[e] for part, b in zip(read, biases, strict=True)]
        if not self.gated:
            return [read[0], read[0] * sigmoid(read[0])]
        gate, up = read if self.apart else (read[0][:, 0::2], read[0][:, 1::2])
        return [gate, up, gate * sigmoid(gate) * up]

    def output(self, weights: list[Array], inner: list[Array], e: Array, *, once: bool) -> Array:
        """The experts' outputs; `once`: with the last bias."""
        _, _, down, bias = self.named(weights)
        y = np.einsum("tf,tfh->th", inner[-1], down[e])
        return y + (sum(b[e] for b in bias) if once else 0)

    def backward(
        self, weights: list[Array], x: Array, inner: list[Array], e: Array, dy: Array
    ) -> tuple[Array, list[Array]]:
        """Gradients of the tokens and of all weights."""
        first, _, down, bias = self.named(weights)
        da = np.einsum("th,tfh->tf", dy, down[e])
        if not self.gated:
            dread = [da * silu_gradient(inner[0])]
        else:
            gate, up, _ = inner
            parts = [da * up * silu_gradient(gate), da * gate * sigmoid(gate)]
            dread = (
                parts
                if self.apart
                else [np.stack(parts, axis=-1).reshape(len(x), 2 * gate.shape[1])]
            )
        dx = sum(np.einsum("tf,thf->th", d, w[e]) for d, w in zip(dread, first, strict=True))
        found = []
        for d, w in zip(dread, first, strict=True):
            found.append(_by_expert(e, np.einsum("th,tf->thf", x, d), w.shape))
            if bias:
                found.append(_by_expert(e, d, (w.shape[0], w.shape[2])))
        found.append(_by_expert(e, np.einsum("tf,th->tfh", inner[-1], dy), down.shape))
        found += [_by_expert(e, dy, b.shape) for b in bias]
        return dx, found


def _by_expert(e: Array, parts: Array, shape: tuple[int, ...]) -> Array:
    total = np.zeros(shape)
    np.add.at(total, e, parts)
    return total


def experts(draw: Draw, rng: Rng) -> Case:
    """Gated or not, with or without biases, for both forms of the router's choice."""
    rows = draw(st.sampled_from([(4,), (8,), (4, 4)]))
    count, chosen = draw(st.sampled_from([(4, 2), (4, 1), (2, 2)]))
    hidden, features = 3, 4
    gated = draw(st.booleans())
    layers = FeedForward(gated, gated and draw(st.booleans()), draw(st.booleans()))
    dense = draw(st.booleans())
    build = CaseBuilder("experts", rng, {"experts_per_token": chosen} if dense else {})
    build.input(*rows, hidden)
    numbers = best(rng.random((*rows, count)), chosen)
    weights = rng.random((*rows, chosen)) + 0.5
    if dense:
        spread = np.zeros((*rows, count))
        np.put_along_axis(spread, numbers, weights, -1)
        build.input(*rows, count, value=spread)
    else:
        build.input(*rows, chosen, value=weights)
        build.input(*rows, chosen, value=numbers)
    build.output(*rows, hidden)
    width = 2 * features if gated and not layers.apart else features
    for size in [(hidden, width)] * (2 if layers.apart else 1) + [(features, hidden)]:
        build.parameter(count, *size)
        if layers.biased:
            build.parameter(count, size[1])

    def whole(inputs: list[Array], params: list[Array]) -> list[Array]:
        x = inputs[0].reshape(-1, hidden)
        e = numbers.reshape(-1, chosen)
        w = inputs[1].reshape(len(x), -1)
        w = np.take_along_axis(w, e, -1) if dense else w
        y = np.zeros_like(x)
        for k in range(chosen):
            out = layers.output(params, layers.inner(params, x, e[:, k]), e[:, k], once=True)
            y += w[:, k : k + 1] * out
        return [y.reshape(inputs[0].shape)]

    def routed(routing: list[Array]) -> tuple[Array, Array, Array]:
        """Of every copy of a token: its token, its expert, its weight."""
        weights = routing[0].reshape(-1, routing[0].shape[-1])
        own = best(weights, chosen) if dense else routing[1].reshape(-1, chosen)
        weights = np.take_along_axis(weights, own, -1) if dense else weights
        return np.repeat(np.arange(len(own)), chosen), own.ravel(), weights.ravel()

    def exchange(device: Device, e: Array, copies: Array) -> Program:
        """Copies to their experts' devices: what arrives from each peer, and for which expert."""
        per_device = count // device.degree("row")
        homes = [e // per_device == peer for peer in range(device.degree("row"))]
        sent = [copies[home] for home in homes]
        arrived = yield from device.all_to_all("row", sent)
        return arrived, homes

    def own_numbers(device: Device, e: Array) -> Program:
        """Which expert each copy is for travels along, and is too little to count."""
        per_device = count // device.degree("row")
        labels = [e[e // per_device == peer] for peer in range(device.degree("row"))]
        arrived = yield from device.uncounted_all_to_all("row", labels)
        return np.concatenate(arrived) % per_device

    def back(device: Device, parts: list[Array], homes: list[Array], rows: Array) -> Program:
        sizes = np.cumsum([len(part) for part in parts])[:-1]
        returned = yield from device.all_to_all("row", np.split(rows, sizes))
        copies = np.zeros((len(homes[0]), rows.shape[1]))
        for home, part in zip(homes, returned, strict=True):
            copies[home] = part
        return copies

    def per_token(t: Array, copies: Array, like: Array) -> Array:
        total = np.zeros((like.size // hidden, hidden))
        np.add.at(total, t, copies)
        return total.reshape(like.shape)

    def forward(device: Device, inputs: list[Array], params: list[Array]) -> Program:
        x, *routing = inputs
        if device.sequence_parallel:
            x = yield from device.all_gather("column", x, 1)
        t, e, w = routed(routing)
        arrived, homes = yield from exchange(device, e, x.reshape(-1, hidden)[t])
        local = yield from own_numbers(device, e)
        tokens = np.concatenate(arrived)
        inner = layers.inner(params, tokens, local)
        once = device.index("column") == 0
        made = layers.output(params, inner, local, once=once)
        copies = yield from back(device, arrived, homes, made)
        y = per_token(t, w[:, None] * copies, x)
        if device.sequence_parallel:
            y = yield from device.reduce_scatter("column", y, 1)
        return [y], [tokens, np.stack(inner), copies]

    def backward(
        device: Device,
        inputs: list[Array],
        _outputs: object,
        kept: list[Array],
        params: list[Array],
        gradients: list[Array],
    ) -> Program:
        (_, *routing), (dy,), (tokens, inner, made) = inputs, gradients, kept
        if device.sequence_parallel:
            dy = yield from device.all_gather("column", dy, 1)
        t, e, w = routed(routing)
        copies = dy.reshape(-1, hidden)[t]
        arrived, homes = yield from exchange(device, e, w[:, None] * copies)
        local = yield from own_numbers(device, e)
        dx, found = layers.backward(params, tokens, list(inner), local, np.concatenate(arrived))
        dcopies = yield from back(device, arrived, homes, dx)
        dx = per_token(t, dcopies, dy)
        if device.sequence_parallel:
            dx = yield from device.reduce_scatter("column", dx, 1)
        dw = (copies * made).sum(axis=1).reshape(-1, chosen)
        if dense:
            spread = np.zeros((len(dw), count))
            np.put_along_axis(spread, e.reshape(-1, chosen), dw, -1)
            return [dx, spread.reshape(routing[0].shape)], found
        return [dx, dw.reshape(routing[0].shape), None], found

    return build.case(whole, forward, backward)
