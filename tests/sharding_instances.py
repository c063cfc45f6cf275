"""Random sharding instances for property tests, and their optimum by trying every plan."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from hypothesis import strategies as st

from planner.sharding.instance import (
    Edge,
    Instance,
    OperatorChoice,
    StrategyCost,
    Totals,
    totals,
)

Table = tuple[tuple[int, ...], ...]

LARGEST_COSTS = (3, 1000, 10**6, 10**12)
"""Small ones make ties, large ones have no common divisor."""


@st.composite
def instances(
    draw: st.DrawFn, most_operators: int = 8, most_strategies: int = 4, limited: bool | None = None
) -> Instance:
    """Tree-like graphs with residual and parallel edges, whose tables may be zero, constant, sums
    of both ends' own costs, or equal within classes of layouts; with a memory limit that binds, or
    does not, or that nothing keeps, or with none (`limited` True or False: always or never)."""
    count = draw(st.integers(1, most_operators))
    largest = draw(st.sampled_from(LARGEST_COSTS))
    alpha = draw(st.sampled_from([0.0, 0.01, 0.1, 1.0, 10.0]))
    tightness = draw(st.sampled_from(["none", "too tight", "least", "binding", "binding", "loose"]))
    residual = draw(st.sampled_from([0.0, 0.3, 0.8]))
    # Numbers one by one would take longer than solving.
    numbers = random.Random(draw(st.integers(0, 2**32)))
    if limited is not None:
        tightness = "binding" if limited else "none"
    operators = tuple(
        _operator(numbers, v, numbers.randint(1, most_strategies), largest) for v in range(count)
    )
    edges = []
    for v in range(1, count):
        ends = {numbers.randrange(v) if numbers.random() < 0.3 else v - 1}
        if numbers.random() < residual:
            ends.add(numbers.randrange(v))
        for u in sorted(ends):
            source, target = (u, v) if numbers.random() < 0.9 else (v, u)
            for _ in range(2 if numbers.random() < 0.15 else 1):
                table = _table(numbers, operators[source], operators[target], largest)
                edges.append(Edge(source, target, table))
    return Instance(operators, tuple(edges), alpha, _limit(numbers, operators, tightness))


def _operator(numbers: random.Random, v: int, strategies: int, largest: int) -> OperatorChoice:
    return OperatorChoice(
        f"operator {v}",
        tuple(
            StrategyCost(f"s{k}", *(numbers.randint(0, largest) for _ in range(3)))
            for k in range(strategies)
        ),
    )


def _table(
    numbers: random.Random, source: OperatorChoice, target: OperatorChoice, largest: int
) -> Table:
    rows, columns = range(len(source.strategies)), range(len(target.strategies))
    kind = numbers.choice(["free", "free", "classes", "classes", "constant", "sum", "zero"])
    constant = numbers.randint(0, largest)
    of_row = [numbers.randrange(2) for _ in rows]
    of_column = [numbers.randrange(2) for _ in columns]
    classes = [[numbers.randint(0, largest) for _ in range(2)] for _ in range(2)]

    def entry(i: int, j: int) -> int:
        if kind == "free":
            return numbers.choice([0, numbers.randint(0, largest)])
        if kind == "classes":
            return classes[of_row[i]][of_column[j]]
        if kind == "sum":
            return constant * of_row[i] + 2 * constant * of_column[j]
        return constant if kind == "constant" else 0

    return tuple(tuple(entry(i, j) for j in columns) for i in rows)


def _limit(
    numbers: random.Random, operators: tuple[OperatorChoice, ...], tightness: str
) -> int | None:
    sizes = [[s.memory_bytes for s in operator.strategies] for operator in operators]
    least, most = sum(map(min, sizes)), sum(map(max, sizes))
    if tightness == "none":
        return None
    if tightness == "too tight":
        return max(0, least - 1)
    if tightness == "binding":
        return numbers.randint(least, most)
    return least if tightness == "least" else most


def every_plan(instance: Instance) -> Iterator[tuple[tuple[int, ...], Totals]]:
    """Every choice that fits in memory, and what it adds up to."""
    ranges = [range(len(operator.strategies)) for operator in instance.operators]
    limit = instance.device_memory_bytes
    for choice in itertools.product(*ranges):
        sums = totals(instance, choice)
        if limit is None or sums.memory_bytes <= limit:
            yield choice, sums


def brute_force(instance: Instance) -> float | None:
    """The least objective of all plans; None if none fits."""
    return min((sums.objective(instance.alpha) for _, sums in every_plan(instance)), default=None)


def chain(operators: int, strategies: int, seed: int = 0) -> Instance:
    """A chain with residual edges and a binding memory limit, too large to try every plan of."""
    numbers = random.Random(seed)
    largest = 10**9
    choices = tuple(_operator(numbers, v, strategies, largest) for v in range(operators))
    edges = []
    for v in range(1, operators):
        for u in {v - 1, max(0, v - 3)} if v % 4 == 0 else {v - 1}:
            table = tuple(
                tuple(numbers.randint(0, largest) for _ in range(strategies))
                for _ in range(strategies)
            )
            edges.append(Edge(u, v, table))
    sizes = [[s.memory_bytes for s in choice.strategies] for choice in choices]
    limit = (2 * sum(map(min, sizes)) + sum(map(max, sizes))) // 3
    return Instance(choices, tuple(edges), 1.0, limit)
