"""The pipeline MILP while it is being built: columns with their meaning, order literals, rows.

Order decisions are `Literal`s: a constant where the precedences settle them, otherwise a binary
or its complement. A literal of a pair brings its big-M rows when it is first asked for.
Formulation: disjunctive scheduling with the big-M of Manne (1960); M is the largest overlap the
start windows leave to a pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import mip

from planner.pipeline.milp.graph import PrecedenceGraph
from planner.pipeline.milp.windows import Windows

Kind = str
"""start, objective, offload; order (a ends before b starts, or the reverse), begins (a allocates
no later than b), ended (a has ended when b starts), away (a is on the host when b starts); idle
(says nothing)."""


class Column(NamedTuple):
    """What a column stands for: a kind and one or two operations of the graph."""

    kind: Kind
    a: int = -1
    b: int = -1


@dataclass(frozen=True, slots=True)
class Literal:
    """`constant + sign * column`, a value in {0, 1}; `column` -1 where it is settled."""

    column: int
    sign: int
    constant: int

    @property
    def is_settled(self) -> bool:
        return self.column < 0

    def negated(self) -> Literal:
        return Literal(self.column, -self.sign, 1 - self.constant)


class BuildStopped(Exception):
    """The time for building the model is over, or a stop was asked for."""


ROWS_BETWEEN_CHECKS = 200

FALSE = Literal(-1, 0, 0)
TRUE = Literal(-1, 0, 1)


class Row:
    """A linear expression under construction."""

    def __init__(self, constant: float = 0.0) -> None:
        self.coefficients: dict[int, float] = {}
        self.constant = constant

    def add(self, column: int, coefficient: float) -> Row:
        self.coefficients[column] = self.coefficients.get(column, 0.0) + coefficient
        return self

    def add_literal(self, literal: Literal, coefficient: float) -> Row:
        if not literal.is_settled:
            self.add(literal.column, coefficient * literal.sign)
        self.constant += coefficient * literal.constant
        return self

    def value(self, values: list[float]) -> float:
        """The expression at a point."""
        return self.constant + sum(c * values[i] for i, c in self.coefficients.items())


class Formulation:
    """A python-mip model of one problem over its precedences and start windows.

    Times in the model are in units of `unit_ns`. `may_change(a, b)` says whether the order of an
    unsettled pair is open; in window mode the others follow the incumbent through the graph.
    """

    def __init__(
        self,
        graph: PrecedenceGraph,
        windows: Windows,
        unit_ns: int,
        may_change: Callable[[int, int], bool] = lambda a, b: True,
        should_end: Callable[[], bool] = lambda: False,
    ) -> None:
        self._should_end = should_end
        self.graph = graph
        self.windows = windows
        self.unit_ns = unit_ns
        self.may_change = may_change
        self.model = mip.Model(sense=mip.MINIMIZE, solver_name=mip.CBC)
        self.model.verbose = 0
        self.columns: list[Column] = []
        self.column_of: dict[Column, int] = {}
        self._variables: list[mip.Var] = []
        self.rows = 0
        self.starts = [
            self.add_column(
                Column("start", i),
                lower=self.units(windows.earliest[i]),
                upper=self.units(windows.latest[i]),
            )
            for i in range(len(graph.tokens))
        ]
        self._offloads: dict[tuple[int, int], Literal] = {
            key: TRUE if value else FALSE for key, value in graph.settled.items()
        }
        self._offer_offloads()

    def _offer_offloads(self) -> None:
        for i, token in enumerate(self.graph.tokens):
            if token.op == "O" and self.graph.is_open(i):
                self._offloads[token[1:]] = self.add_binary(Column("offload", i))

    def units(self, time_ns: int) -> float:
        """A time in units of the model, to the five decimals that a written model keeps."""
        return round(time_ns / self.unit_ns, 5)

    def add_column(
        self, column: Column, *, lower: float, upper: float, var_type: str = mip.CONTINUOUS
    ) -> int:
        """A new column; its number."""
        number = len(self.columns)
        self.columns.append(column)
        self.column_of[column] = number
        self._variables.append(
            self.model.add_var(name=f"x{number}", lb=lower, ub=upper, var_type=var_type)
        )
        return number

    def add_binary(self, column: Column) -> Literal:
        """A new binary column as a literal."""
        return Literal(self.add_column(column, lower=0, upper=1, var_type=mip.BINARY), 1, 0)

    def add_at_most_zero(self, row: Row) -> None:
        """Add `row <= 0`. Raises `BuildStopped` if building was told to end."""
        if self.rows % ROWS_BETWEEN_CHECKS == 0 and self._should_end():
            raise BuildStopped
        variables = [self._variables[i] for i in row.coefficients]
        expression = mip.LinExpr(
            variables, list(row.coefficients.values()), row.constant, sense="<"
        )
        self.model.add_constr(expression)
        self.rows += 1

    def minimise(self, column: int) -> None:
        """Set the objective."""
        self.model.objective = self._variables[column]

    @property
    def binaries(self) -> int:
        """How many columns are 0/1 decisions."""
        return sum(column.kind not in ("start", "objective") for column in self.columns)

    def offload(self, i: int) -> Literal:
        """Whether the micro-batch that transfer `i` belongs to is offloaded."""
        token = self.graph.tokens[i]
        return self._offloads.get((token.stage, token.micro_batch), FALSE)

    def end_row(self, i: int, sign: int = 1) -> Row:
        """sign * (end of i)."""
        row = Row().add(self.starts[i], sign)
        length = sign * self.units(self.graph.duration[i])
        if self.graph.is_open(i):
            return row.add_literal(self.offload(i), length)
        row.constant += length
        return row

    def order(self, a: int, b: int) -> Literal:
        """Whether a ends before b starts, of two exclusive operations of a device."""
        if self.graph.precedes(a, b):
            return TRUE
        if self.graph.precedes(b, a):
            return FALSE
        first, second = min(a, b), max(a, b)
        known = self.known_order("order", a, b)
        if known is not None:
            return known
        literal = self.add_binary(Column("order", first, second))
        self.imply_end_before(literal, first, second)
        self.imply_end_before(literal.negated(), second, first)
        return literal if a == first else literal.negated()

    def imply_end_before(
        self, literal: Literal, a: int, b: int, also: Iterable[Literal] = ()
    ) -> None:
        """If the literal (and all of `also`) hold, a ends before b starts."""
        overlap = max(0.0, self.units(self.windows.largest_overlap(a, b)))
        row = Row().add(self.starts[a], 1).add(self.starts[b], -1)
        row.constant += self.units(self.graph.duration[a])
        for condition in (literal, *also):
            row.add_literal(condition.negated(), -overlap)
        self.add_at_most_zero(row)

    def begins(self, a: int, b: int) -> Literal:
        """Whether a's allocation is made before b's, of two that need not be exclusive."""
        if self.graph.precedes(a, b):
            return TRUE
        if self.graph.precedes(b, a):
            return FALSE
        first, second = min(a, b), max(a, b)
        known = self.known_order("begins", a, b)
        if known is not None:
            return known
        literal = self.add_binary(Column("begins", first, second))
        self._imply_start_before(literal, first, second)
        self._imply_start_before(literal.negated(), second, first)
        return literal if a == first else literal.negated()

    def known_order(self, kind: Kind, a: int, b: int) -> Literal | None:
        """The literal of a pair in either order if there is one of this kind already."""
        number = self.column_of.get(Column(kind, min(a, b), max(a, b)))
        if number is None:
            return None
        return Literal(number, 1, 0) if a < b else Literal(number, -1, 1)

    def _imply_start_before(self, literal: Literal, a: int, b: int) -> None:
        gap = self.windows.largest_overlap(a, b) - self.graph.duration[a]
        row = Row().add(self.starts[a], 1).add(self.starts[b], -1)
        row.add_literal(literal.negated(), -max(0.0, self.units(gap)))
        self.add_at_most_zero(row)

    def ended(self, a: int, b: int) -> Literal:
        """A literal that may be 1 only if the operation a has ended when b starts."""
        if not self.graph.is_open(a) and self.graph.ends_before(a, b):
            return TRUE
        if self.graph.ends_later(a, b):
            return FALSE
        if self.is_exclusive_pair(a, b):
            return self.order(a, b)
        column = Column("ended", a, b)
        if column in self.column_of:
            return Literal(self.column_of[column], 1, 0)
        if not self.may_change(a, b):
            return FALSE
        literal = self.add_binary(column)
        self.imply_end_before(literal, a, b)
        return literal

    def is_exclusive_pair(self, a: int, b: int) -> bool:
        """Whether a and b are computations of one device that both take time."""
        graph = self.graph
        compute = graph.tokens[a].op in "FBW" and graph.tokens[b].op in "FBW"
        return (
            compute
            and graph.device[a] == graph.device[b]
            and graph.duration[a] > 0
            and graph.duration[b] > 0
        )

    def holds_before(self, a: int, b: int) -> Literal:
        """Whether a's allocation counts when b starts."""
        return self.order(a, b) if self.is_exclusive_pair(a, b) else self.begins(a, b)
