"""Random graphs as they are posted: every kind of operator, odd shapes, ties, repeated layers."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from planner.sharding.documents import read_graph
from planner.sharding.graph import Graph
from tests.graph_writer import GraphWriter, Shape


@st.composite
def posted_graphs(draw: st.DrawFn, most_operators: int = 6) -> Graph:
    """A graph of a few operators that read each other's outputs where those fit."""
    count = draw(st.integers(1, most_operators))
    # Numbers one by one would take longer than the comparison.
    return random_graph(random.Random(draw(st.integers(0, 2**32))), count)


def random_graph(numbers: random.Random, operators: int) -> Graph:
    """A graph of so many operators and those that they need."""
    writer = _Writer(numbers)
    for _ in range(operators):
        getattr(writer, numbers.choice(KINDS))()
    return read_graph(writer.document())


class _Writer(GraphWriter):
    """Each method adds operators of its kind."""

    def linear(self) -> None:
        x = self.read(2, 4)
        shape = self.shape_of(x)
        width = self.numbers.choice([self.size(), shape[-1]])
        bias = [(width,)] * self.numbers.randint(0, 1)
        attributes = {}
        for name, size in (("row_units", shape[-1]), ("column_units", width)):
            if self.numbers.random() < 0.3:
                attributes[name] = self.divisor(size)
        parameters = [(shape[-1], width), *bias]
        self.add("linear", [x], [(*shape[:-1], width)], parameters, attributes)

    def tied(self) -> None:
        """A linear layer with another operator's matrix, or its transpose."""
        holders = [
            (operator["name"], parameter["shape"])
            for operator in self.operators
            for parameter in operator["parameters"]
            if len(parameter["shape"]) == 2 and "tied_to" not in parameter
        ]
        if not holders:
            self.linear()
            return
        holder, matrix = self.numbers.choice(holders)
        rows, width = matrix if self.numbers.random() < 0.3 else matrix[::-1]
        x = self.read(2, 3, last=rows)
        self.add("linear", [x], [(*self.shape_of(x)[:-1], width)], [(rows, width)])
        self.operators[-1]["parameters"][0]["tied_to"] = holder

    def matmul(self) -> None:
        a = self.read(2, 5)
        *batch, rows, inner = self.shape_of(a)
        width = self.size()
        if self.numbers.random() < 0.2:
            self.add("matmul", [a, a], [(*batch, rows, rows)], attributes={"transpose_b": True})
            return
        heads = list(batch)
        if len(batch) > 1:
            heads[1] = self.divisor(batch[1])
        transposed = self.numbers.random() < 0.5
        b = self.input((*heads, *((width, inner) if transposed else (inner, width))))
        attributes = {"transpose_b": transposed} if transposed else {}
        self.add("matmul", [a, b], [(*batch, rows, width)], attributes=attributes)

    def attention(self) -> None:
        q = self.read(4, 4)
        batch, heads, queries, size = self.shape_of(q)
        if self.numbers.random() < 0.3:
            self.add("attention", [q, q, q], [self.shape_of(q)], attributes={"causal": True})
            return
        groups, keys, width = self.divisor(heads), self.size(), self.size()
        k = self.input((batch, groups, keys, size))
        v = self.input((batch, groups, keys, width))
        self.add("attention", [q, k, v], [(batch, heads, queries, width)])

    def merged_attention(self) -> None:
        self.attention()
        self._merge(self.operators[-1]["outputs"][0]["name"])

    def softmax(self) -> None:
        x = self.read(1, 4)
        shape, attributes = self.shape_of(x), {}
        if len(shape) > 2 and self.numbers.random() < 0.3:
            attributes["column_dimension"] = self.numbers.randint(1, len(shape) - 2)
        self.add("softmax", [x], [shape], attributes=attributes)

    def norm(self) -> None:
        kind = self.numbers.choice(["layer_norm", "rms_norm"])
        x = self.read(2, 4)
        most = 2 if kind == "layer_norm" else 1
        weights = [self.shape_of(x)[-1:]] * self.numbers.randint(0, most)
        self.add(kind, [x], [self.shape_of(x)], weights)

    def unary(self) -> None:
        kinds = ["gelu", "silu", "relu", "tanh", "sigmoid", "dropout", "scale", "cast"]
        x = self.read(0, 4)
        shape, attributes = self.shape_of(x), {}
        if len(shape) > 1 and self.numbers.random() < 0.3:
            attributes["column_dimension"] = self.numbers.randint(1, len(shape) - 1)
        kind = self.numbers.choice(kinds)
        self.add(kind, [x], [shape], attributes=attributes)

    def residual(self) -> None:
        x = self.read(1, 4)
        shape = self.shape_of(x)
        alike = [name for name, (own, _) in self.tensors.items() if own == shape]
        self.add("add", [x, self.numbers.choice(alike)], [shape])

    def broadcast(self) -> None:
        kind = self.numbers.choice(["add", "mul"])
        x = self.read(1, 4)
        shape = self.shape_of(x)
        inputs = [x]
        for _ in range(1 if kind == "mul" else self.numbers.randint(1, 2)):
            own = tuple(1 if self.numbers.random() < 0.3 else size for size in shape)
            own = own[self.numbers.choice([0, 0, 1, len(shape) - 1]) :]
            dtype = self.numbers.choice([self.dtype, self.dtype, "bool"])
            inputs.append(self.input(own, dtype))
        self.numbers.shuffle(inputs)
        self.add(kind, inputs, [shape])

    def embedding(self) -> None:
        tokens = self.input(self.random_shape(1, 3), "int64")
        shape, hidden = self.shape_of(tokens), self.size()
        tables = [(self.size(), hidden)]
        if self.numbers.random() < 0.4:
            tables.append((shape[-1] + self.numbers.randint(0, 3), hidden))
        self.add("embedding", [tokens], [(*shape, hidden)], tables)

    def cross_entropy(self) -> None:
        logits = self.read(2, 4)
        rows = self.shape_of(logits)[:-1]
        targets = self.input(rows, "int64")
        loss = rows[: self.numbers.randint(0, len(rows))]
        self.add("cross_entropy", [logits, targets], [loss], dtype="fp32")

    def conv(self) -> None:
        x = self.read(3, 5)
        batch, channels, *places = self.shape_of(x)
        groups = self.divisor(channels) if self.numbers.random() < 0.4 else 1
        out = groups * self.size()
        kernel = [self.size() for _ in places]
        made = (batch, out, *(self.size() for _ in places))
        weights = [(out, channels // groups, *kernel), *[(out,)] * self.numbers.randint(0, 1)]
        kind = {3: "conv1d", 4: "conv2d"}.get(len(made), "conv")
        self.add(kind, [x], [made], weights, {"groups": groups})

    def reshape(self) -> None:
        x = self.read(1, 4)
        shape = self.shape_of(x)
        self.add("reshape", [x], [self.regrouped(shape)], attributes=self.view())

    def transpose(self) -> None:
        x = self.read(1, 4)
        shape = self.shape_of(x)
        places = list(range(len(shape)))
        self.numbers.shuffle(places)
        target = tuple(shape[place] for place in places)
        text = ",".join(f"{places[to]}:{to}" for to in range(len(shape)))
        attributes = self.view()
        if len(set(shape)) < len(shape) or self.numbers.random() < 0.5:
            attributes["dimension_map"] = text
        self.add("transpose", [x], [target], attributes=attributes)

    def split_heads(self) -> None:
        x = self.read(3, 3)
        batch, sequence, features = self.shape_of(x)
        groups, size = self.divisor(features), 1
        if features // groups < 3 or self.numbers.random() < 0.3:
            self.add("split_heads", [x], [(batch, groups, sequence, features // groups)])
            return
        size = self.divisor(features // groups)
        shared = features // groups // size - 2
        if shared < 1:
            shared, size = features // groups - 2, 1
        heads = [(batch, count, sequence, size) for count in (shared * groups, groups, groups)]
        self.add("split_heads", [x], heads)

    def merge_heads(self) -> None:
        self._merge(self.read(4, 4))

    def _merge(self, x: str) -> None:
        batch, heads, sequence, size = self.shape_of(x)
        self.add("merge_heads", [x], [(batch, sequence, heads * size)])

    def glu(self) -> None:
        x = self.read(2, 4)
        *rows, width = self.shape_of(x)
        if width % 2 or self.numbers.random() < 0.3:
            self.add("glu", [x, self.input((*rows, width))], [(*rows, width)])
        else:
            self.add("glu", [x], [(*rows, width // 2)])

    def experts(self) -> None:
        x = self.read(2, 4)
        *tokens, hidden = self.shape_of(x)
        count, features = self.size(), self.size()
        chosen = self.numbers.randint(1, count)
        bias = [(count,)] * self.numbers.randint(0, 1)
        routing = [(*tokens, count)]
        if self.numbers.random() < 0.5:
            routing = [(*tokens, chosen)] * 2
        attributes = {"experts_per_token": chosen}
        dtype = self.numbers.choice([self.dtype, "fp32"])
        made = self.add("router", [x], routing, [(hidden, count), *bias], attributes, dtype)
        if len(made) == 2:
            self.retype(made[1], "int64")
        first = self.numbers.choice([[features], [2 * features], [features, features]])
        parameters: list[Shape] = []
        has_bias = self.numbers.random() < 0.5
        for shape in (*((count, hidden, width) for width in first), (count, features, hidden)):
            parameters += [shape, (count, shape[-1])] if has_bias else [shape]
        dtype = self.tensors[x][1]
        self.add("experts", [x, *made], [(*tokens, hidden)], parameters, attributes, dtype)

    def unknown(self) -> None:
        reads = [self.read(0, 4) for _ in range(self.numbers.randint(1, 3))]
        made = [self.random_shape(0, 3) for _ in range(self.numbers.randint(1, 2))]
        if self.shape_of(reads[0]):
            made[0] = (self.shape_of(reads[0])[0], *made[0])
        weights = [self.random_shape(1, 3)] * (self.numbers.randint(0, 2) if made[0] else 0)
        self.add("fourier", reads, made, weights, {"of": "anything"})


KINDS = tuple(name for name in vars(_Writer) if not name.startswith("_"))
