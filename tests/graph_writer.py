"""Writing down random graphs: names, shapes, and who reads what."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from planner.sharding.graph import FLOATING

Shape = tuple[int, ...]
SIZES = (1, 2, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16)


class GraphWriter:
    """A document that grows operator by operator, with sizes drawn from `numbers`."""

    def __init__(self, numbers: random.Random) -> None:
        self.numbers = numbers
        self._inputs: list[dict[str, Any]] = []
        self.operators: list[dict[str, Any]] = []
        self.tensors: dict[str, tuple[Shape, str]] = {}
        self._needs: dict[str, set[str]] = {}
        self.dtype = numbers.choice(["bf16", "bf16", "fp32", "fp16", "fp8", "fp64"])

    def document(self) -> dict[str, Any]:
        """The graph, perhaps with a layer that repeats."""
        document: dict[str, Any] = {"inputs": self._inputs, "operators": self.operators}
        layers = [
            (first, last)
            for last, needs in self._needs.items()
            for first in sorted(needs)
            if self.tensors[first] == self.tensors[last]
        ]
        if layers and self.numbers.random() < 0.7:
            first, last = self.numbers.choice(layers)
            count = self.numbers.randint(1, 4)
            document["repeat"] = {"count": count, "input": first, "output": last}
        return document

    def size(self) -> int:
        """A small size, often one that many numbers of devices divide."""
        return self.numbers.choice(SIZES)

    def divisor(self, number: int) -> int:
        """Any divisor."""
        return self.numbers.choice([n for n in range(1, number + 1) if number % n == 0])

    def shape_of(self, name: str) -> Shape:
        """The shape of a tensor."""
        return self.tensors[name][0]

    def random_shape(self, least: int, most: int) -> Shape:
        """So many dimensions."""
        return tuple(self.size() for _ in range(self.numbers.randint(least, most)))

    def regrouped(self, shape: Shape) -> Shape:
        """The same elements in other dimensions, often in some of the same."""
        factors = []
        for size in shape:
            divisor = self.divisor(size)
            factors += [divisor, size // divisor]
        kept = [factors[0]]
        for factor in factors[1:]:
            if self.numbers.random() < 0.5 or len(kept) == 8:
                kept[-1] *= factor
            else:
                kept.append(factor)
        assert math.prod(kept) == math.prod(shape)
        return tuple(kept)

    def view(self) -> dict[str, Any]:
        """The attribute `is_view`, or none."""
        return {"is_view": self.numbers.random() < 0.5} if self.numbers.random() < 0.3 else {}

    def read(self, least: int, most: int, last: int | None = None) -> str:
        """A tensor of so many dimensions, one that is there if possible."""
        found = [
            name
            for name, (shape, dtype) in self.tensors.items()
            if least <= len(shape) <= most
            and dtype in FLOATING
            and (last is None or shape[-1] == last)
        ]
        if found and self.numbers.random() < 0.85:
            # The newest ones, so that chains come about.
            return self.numbers.choice(found[-3:])
        shape = self.random_shape(least, most)
        return self.input(shape if last is None else (*shape[:-1], last))

    def input(self, shape: Shape, dtype: str | None = None) -> str:
        """A new tensor from outside; of the graph's dtype unless given."""
        name = f"in{len(self._inputs)}"
        self._inputs.append(self._tensor(name, shape, dtype or self.dtype))
        self._needs[name] = set()
        return name

    def _tensor(self, name: str, shape: Shape, dtype: str) -> dict[str, Any]:
        self.tensors[name] = shape, dtype
        return {"name": name, "shape": list(shape), "dtype": dtype}

    def retype(self, name: str, dtype: str) -> None:
        """Another dtype for the last output."""
        self.operators[-1]["outputs"][-1]["dtype"] = dtype
        self.tensors[name] = self.shape_of(name), dtype

    def add(
        self,
        kind: str,
        reads: Sequence[str],
        makes: Sequence[Shape],
        parameters: Sequence[Shape] = (),
        attributes: dict[str, Any] | None = None,
        dtype: str | None = None,
    ) -> list[str]:
        """An operator, which makes tensors of these shapes; their names."""
        number = len(self.operators)
        names = [f"t{number}.{place}" for place in range(len(makes))]
        outputs = [
            self._tensor(name, shape, dtype or self.dtype)
            for name, shape in zip(names, makes, strict=True)
        ]
        needs = {name for read in reads for name in (read, *self._needs[read])}
        self._needs |= dict.fromkeys(names, needs)
        self.operators.append(
            {
                "name": f"v{number}",
                "kind": kind,
                "inputs": list(reads),
                "outputs": outputs,
                "parameters": [
                    {"name": f"w{place}", "shape": list(shape)}
                    for place, shape in enumerate(parameters)
                ],
                "attributes": attributes or {},
            }
        )
        return names
