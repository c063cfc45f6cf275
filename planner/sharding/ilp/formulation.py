"""The ILP of an instance: its columns, its rows, and what they mean.

X is 1 for the strategy that an operator takes. B is, per pair of operators that cost something
together, the share of each pair of their layout classes: strategies whose rows (or columns) of the
resharding table are equal form one class. Each B's row and column sums equal the X of their class
(flow equalities), so that B is whole wherever X is and may be continuous.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import mip
import numpy as np
from numpy.typing import NDArray

from planner.milp.scale import SizeScale
from planner.progress import Item, StopCheck, never, watched
from planner.sharding.tables import Costs, CostTables, Numbers, Weights

LARGEST_COEFFICIENT = 1_000_000
"""Of the objective: written models keep five decimals, so it has eleven significant digits."""
ROUNDING_UNITS = 1e-5
"""How far a written coefficient may be off."""
DUAL_TOLERANCE = 1e-7
"""Reduced costs of that size pass for zero in the engines."""
PAIRS_BETWEEN_CHECKS = 20
"""Two hundredths of a second where 64 devices share the work."""
CAP = 2.0
"""Costs beyond so many times what a known plan costs above the bound of all are cut off there."""


Exceeded = Literal["memory", "communication", "redundant"]
"""Which of an instance's sums is over its limit."""


class Row(NamedTuple):
    """The columns and coefficients of a row, and what they come to."""

    columns: list[int]
    coefficients: list[float]
    sense: Literal["=", "<"]
    right_side: float


@dataclass(frozen=True, slots=True)
class _Pair:
    """The B of two operators: layout classes by strategy, and where their columns begin."""

    u: int
    v: int
    class_of_u: NDArray[np.intp]
    class_of_v: NDArray[np.intp]
    classes: tuple[int, int]
    table: Numbers
    first: int

    def column(self, of_u: int, of_v: int) -> int:
        return self.first + of_u * self.classes[1] + of_v


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes that a plan may add up to; None = any. `communication` includes resharding."""

    memory: int | None = None
    communication: int | None = None
    redundancy: int | None = None


@dataclass
class Formulation:
    """Columns and rows as numbers, from which a python-mip model can be built anywhere.

    Objective coefficients are bytes above `offset_bytes`, the sum of the operators' least costs
    (what nothing can be below), in units of `unit_bytes`. `known_objective` is that of a plan
    within the limits: costs far above it are cut off, so that the digits go to what matters.
    Raises `Interrupted` if told to stop before all rows are there.
    """

    costs: CostTables
    weights: Weights
    limits: Limits
    known_objective: float | None
    should_stop: StopCheck = never
    offset_bytes: float = 0.0
    unit_bytes: float = 1.0
    objective: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    first: dict[int, int] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    binaries: int = 0

    def __post_init__(self) -> None:
        own = self.costs.weighted(self.weights)
        self.offset_bytes = float(sum(cost.min() for cost in own))
        excess = [self._cut_off(cost - cost.min()) for cost in own]
        tables = {
            (u, v): self._cut_off(self.costs.weighted_pair(self.weights, u, v))
            for u, v in self._watched(self.costs.edges())
        }
        largest = max((float(values.max()) for values in (*excess, *tables.values())), default=0.0)
        self.unit_bytes = largest / LARGEST_COEFFICIENT or 1.0
        for v, cost in enumerate(excess):
            if len(cost) > 1:
                self.first[v] = len(self.objective)
                self.objective += (cost / self.unit_bytes).tolist()
        self.binaries = len(self.objective)
        self.upper = [1.0] * self.binaries
        self._pairs = [
            self._add_pair(u, v, table)
            for (u, v), table in self._watched(tables.items())
            if table.any() or self.limits.communication is not None
        ]
        for v, first in self.first.items():
            count = len(excess[v])
            self.rows.append(Row(list(range(first, first + count)), [1.0] * count, "=", 1.0))
        for pair in self._watched(self._pairs):
            self._add_flow(pair)
        self._add_limit(self.limits.memory, self.costs.memory, with_pairs=False)
        self._add_limit(self.limits.redundancy, self.costs.redundant, with_pairs=False)
        self._add_limit(self.limits.communication, self.costs.communication, with_pairs=True)

    @property
    def columns(self) -> int:
        """How many columns the model has."""
        return len(self.objective)

    def bound_bytes(self, units: float, printed_digits: int) -> float:
        """An engine's bound as one on the objective in bytes, never above the truth.

        What written coefficients, reduced costs taken for zero and printed digits may be off is
        taken off.
        """
        terms = len(self.costs.memory) + len(self._pairs)
        tolerance = ROUNDING_UNITS * terms + DUAL_TOLERANCE * self.columns
        tolerance += abs(units) * 0.5 * 10.0 ** (1 - printed_digits)
        return self.offset_bytes + self.unit_bytes * max(0.0, units - tolerance)

    def values(self, choice: Sequence[int]) -> list[float]:
        """A plan as a value for every column."""
        values = [0.0] * self.columns
        for v, first in self.first.items():
            values[first + choice[v]] = 1.0
        for pair in self._pairs:
            of_u, of_v = pair.class_of_u[choice[pair.u]], pair.class_of_v[choice[pair.v]]
            values[pair.column(int(of_u), int(of_v))] = 1.0
        return values

    def choice(self, values: Sequence[float]) -> tuple[int, ...]:
        """The plan that a solution stands for: per operator the strategy with the largest X."""
        chosen = [0] * len(self.costs.memory)
        for v, first in self.first.items():
            chosen[v] = int(np.argmax(values[first : first + len(self.costs.memory[v])]))
        return tuple(chosen)

    def forbid(self, choice: Sequence[int], exceeded: Exceeded) -> None:
        """Cut a plan off that is over a limit by less than the row of that limit can tell.

        So is every plan that needs at least as much of it in each operator and pair (a cover
        inequality); those that need their least in the plan need no mention.
        """
        columns: list[int] = []
        parts = 0
        sizes = getattr(self.costs, exceeded)
        for v, first in self.first.items():
            size = sizes[v]
            if size[choice[v]] > size.min():
                columns += (first + np.flatnonzero(size >= size[choice[v]])).tolist()
                parts += 1
        for pair in self._pairs if exceeded == "communication" else ():
            here = pair.table[pair.class_of_u[choice[pair.u]], pair.class_of_v[choice[pair.v]]]
            if here:
                columns += (pair.first + np.flatnonzero(pair.table.ravel() >= here)).tolist()
                parts += 1
        self.rows.append(Row(columns, [1.0] * len(columns), "<", parts - 1.0))

    def _watched(self, pairs: Iterable[Item]) -> Iterator[Item]:
        return watched(pairs, self.should_stop, PAIRS_BETWEEN_CHECKS)

    def _cut_off(self, costs: Costs) -> Costs:
        if self.known_objective is None:
            return costs
        most = CAP * max(0.0, self.known_objective - self.offset_bytes)
        capped: Costs = np.minimum(costs, most)
        return capped

    def _add_pair(self, u: int, v: int, table: Costs) -> _Pair:
        sent = self.costs.pairs[u][v]
        alike = table if self.limits.communication is None else sent
        first_of_u, class_of_u = _classes(alike)
        first_of_v, class_of_v = _classes(alike.T)
        of_each = np.ix_(first_of_u, first_of_v)
        classes = (len(first_of_u), len(first_of_v))
        pair = _Pair(u, v, class_of_u, class_of_v, classes, sent[of_each], len(self.objective))
        self.objective += (table[of_each] / self.unit_bytes).ravel().tolist()
        self.upper += [1.0] * (pair.classes[0] * pair.classes[1])
        return pair

    def _add_flow(self, pair: _Pair) -> None:
        """A class's share of the pair is that of its strategies, on both sides."""
        of_u, of_v = pair.classes
        for number in range(of_u):
            flow = [pair.column(number, other) for other in range(of_v)]
            self._add_equality(flow, self.first[pair.u] + np.flatnonzero(pair.class_of_u == number))
        for number in range(of_v):
            flow = [pair.column(other, number) for other in range(of_u)]
            self._add_equality(flow, self.first[pair.v] + np.flatnonzero(pair.class_of_v == number))

    def _add_equality(self, flow: list[int], strategies: NDArray[np.intp]) -> None:
        coefficients = [1.0] * len(flow) + [-1.0] * len(strategies)
        self.rows.append(Row(flow + strategies.tolist(), coefficients, "=", 0.0))

    def _add_limit(self, limit: int | None, sizes: list[Numbers], *, with_pairs: bool) -> None:
        """What a plan needs above the least of each operator fits into the room above all those.

        Whole coefficients, rounded so that no plan within the limit is cut off: see `SizeScale`.
        """
        if limit is None:
            return
        room = limit - sum(int(size.min()) for size in sizes)
        needs = {
            first + k: int(need)
            for v, first in self.first.items()
            for k, need in enumerate((sizes[v] - sizes[v].min()).tolist())
        }
        if with_pairs:
            for pair in self._pairs:
                needs.update(enumerate(pair.table.ravel().tolist(), start=pair.first))
        for column, need in needs.items():
            if need > room:
                self.upper[column] = 0.0
        needs = {column: need for column, need in needs.items() if 0 < need <= room}
        if not needs:
            return
        # Sums of the needs are multiples of their divisor, so nothing lies between.
        room -= room % math.gcd(*needs.values())
        scale = SizeScale(room, needs.values())
        coefficients = [float(scale.used(need)) for need in needs.values()]
        self.rows.append(Row(list(needs), coefficients, "<", float(scale.room(room))))


def _classes(rows: NDArray[Any]) -> tuple[list[int], NDArray[np.intp]]:
    """The first row of each class of equal rows, and each row's class."""
    number_of: dict[bytes, int] = {}
    first: list[int] = []
    class_of = []
    for number, row in enumerate(rows):
        own = number_of.setdefault(row.tobytes(), len(first))
        if own == len(first):
            first.append(number)
        class_of.append(own)
    return first, np.array(class_of, dtype=np.intp)


def build_model(formulation: Formulation, solver_name: str) -> mip.Model:
    """The formulation as a python-mip model; column i is named x{i}."""
    model = mip.Model(sense=mip.MINIMIZE, solver_name=solver_name)
    model.verbose = 0
    binaries = formulation.binaries
    variables = [
        model.add_var(
            name=f"x{number}",
            ub=upper,
            obj=cost,
            var_type=mip.BINARY if number < binaries else mip.CONTINUOUS,
        )
        for number, (cost, upper) in enumerate(
            zip(formulation.objective, formulation.upper, strict=True)
        )
    ]
    for columns, coefficients, sense, right_side in formulation.rows:
        terms = [variables[number] for number in columns]
        model.add_constr(mip.LinExpr(terms, coefficients, -right_side, sense))
    return model
