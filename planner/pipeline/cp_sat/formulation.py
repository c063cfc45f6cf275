"""Variables of the CP-SAT model: starts, offload decisions, and who comes before whom.

A schedule is start times, but what memory allows depends on order alone. The model therefore has
a literal for every "x has ended when a starts" that memory asks about. Clauses learned over such
literals hold wherever the pair lies in time, which is what lets the solver prove optima
(measured: offload on 4 devices and 8 micro-batches, 25 s with memory as a cumulative constraint
over times alone, 2 s with order literals).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ortools.sat.python import cp_model

from planner.pipeline.cp_sat.scope import Hint, Scope

Start = Any
"""A start or end: a whole number or a linear expression."""
Truth = Any
"""A literal, or a bool where the answer is settled."""


class BuildStopped(Exception):
    """There is no time left to build the model."""


class Formulation:
    """A CP-SAT model with the starts of a scope's operations and lazily made literals."""

    def __init__(self, scope: Scope, should_end: Callable[[], bool]) -> None:
        self.scope = scope
        self.graph = scope.graph
        self.model = cp_model.CpModel()
        self.decided = sorted(scope.earliest)
        self._meanings: list[tuple[Any, Callable[[dict[int, int]], bool]]] = []
        self._should_end = should_end
        self._ended: dict[tuple[int, int], Truth] = {}
        self._begun: dict[tuple[int, int], Truth] = {}
        self.starts = {
            i: self.model.new_int_var(scope.earliest[i], scope.latest[i], self._name(i))
            for i in self.decided
        }
        self.offloads: dict[tuple[int, int], Any] = {}
        for i in self.decided:
            op, s, m = self.graph.tokens[i]
            if op in "OR" and (s, m) not in scope.around.offload and (s, m) not in self.offloads:
                self.offloads[s, m] = self.model.new_bool_var(f"offload {s} {m}")

    def _name(self, i: int) -> str:
        op, s, m = self.graph.tokens[i]
        return f"{op} {s} {m}"

    def check_time(self) -> None:
        """Raise `BuildStopped` when the model is no longer wanted."""
        if self._should_end():
            raise BuildStopped

    def start(self, i: int) -> Start:
        """When an operation starts that is decided or comes earlier."""
        return self.starts[i] if i in self.starts else self.scope.around.earlier[i]

    def end(self, i: int) -> Start:
        """When an operation ends; a transfer that may not happen takes no time if it does not."""
        length = self.scope.duration(i)
        offload = self.offload(i)
        return self.start(i) + (length if offload is True else length * offload)

    def offload(self, i: int) -> Truth:
        """Whether an operation happens: always, but for transfers."""
        op, s, m = self.graph.tokens[i]
        return self.offloads.get((s, m), True) if op in "OR" else True

    def least_duration(self, i: int) -> int:
        """The time that an operation takes whatever is decided."""
        return self.scope.duration(i) if self.offload(i) is True else 0

    def earliest(self, i: int) -> int:
        """The least possible start of an operation that is decided or comes earlier."""
        kept = self.scope.around.earlier.get(i)
        return self.scope.earliest[i] if kept is None else kept

    def latest(self, i: int) -> int:
        """The largest possible start of an operation that is decided or comes earlier."""
        kept = self.scope.around.earlier.get(i)
        return self.scope.latest[i] if kept is None else kept

    def excludes(self, a: int, b: int) -> bool:
        """Whether two operations of one device can never overlap."""
        tokens, duration = self.graph.tokens, self.graph.duration
        compute = tokens[a].op in "FBW" and tokens[b].op in "FBW"
        return a != b and compute and duration[a] > 0 and duration[b] > 0

    def ends_before(self, a: int, b: int) -> bool:
        """Whether a has ended when b starts in every schedule of the scope."""
        turn = self.scope.around.turn
        if a in turn and b in turn and self.excludes(a, b):
            return self.graph.device[a] == self.graph.device[b] and turn[a] < turn[b]
        return self.graph.ends_before(a, b)

    def ended(self, x: int, a: int) -> Truth:
        """A literal that may be true only if x has ended when the decided operation a starts.

        Between operations that exclude each other it is false only if x starts after a.
        """
        if x in self.scope.around.later:
            return False
        if self.ends_before(x, a):
            return True
        if x == a:
            return self.scope.duration(x) == 0
        if self.graph.ends_later(x, a):
            return False
        if self.ends_before(a, x) and (self.least_duration(x) or self.least_duration(a)):
            return False
        if self.earliest(x) + self.least_duration(x) > self.latest(a):
            return False
        if self.latest(x) + self.scope.duration(x) <= self.earliest(a):
            return True
        return self._new_ended(x, a)

    def _new_ended(self, x: int, a: int) -> Truth:
        if (x, a) in self._ended:
            return self._ended[x, a]
        literal = self.model.new_bool_var(f"{self._name(x)} < {self._name(a)}")
        self.model.add(self.end(x) <= self.start(a)).only_enforce_if(literal)
        self._ended[x, a] = literal
        length = self.scope.duration(x)
        self._meanings.append((literal, lambda at: at[x] + length <= at[a]))
        if self.excludes(x, a):
            self.model.add(self.end(a) <= self.start(x)).only_enforce_if(~literal)
            if x in self.starts:
                self._ended[a, x] = ~literal
        return literal

    def begun(self, x: int, a: int) -> Truth:
        """A literal that may be false only if x starts after the decided operation a does."""
        if x == a or x in self.scope.around.earlier or self.graph.precedes(x, a):
            return True
        if x in self.scope.around.later:
            return False
        if self.excludes(x, a):
            return self.ended(x, a)
        if self.earliest(x) > self.latest(a):
            return False
        if self.latest(x) <= self.earliest(a):
            return True
        if (x, a) not in self._begun:
            literal = self.model.new_bool_var(f"{self._name(x)} <= {self._name(a)}")
            self.model.add(self.start(x) >= self.start(a) + 1).only_enforce_if(~literal)
            self._begun[x, a] = literal
            self._meanings.append((literal, lambda at: at[x] <= at[a]))
        return self._begun[x, a]

    def away(self, offload: int, reload: int, a: int) -> Truth:
        """A literal that may be true only if what was offloaded lies on the host alone when the
        decided operation a starts: after the offload's end and before the reload's start."""
        takes_time = self.scope.duration(offload) or self.least_duration(a)
        if takes_time and self.graph.precedes(a, offload):
            return False
        needed = [self.offload(offload), negated(self.begun(reload, a)), self.ended(offload, a)]
        return self.all_of(needed, f"away {self._name(offload)} {self._name(a)}")

    def all_of(self, literals: list[Truth], name: str) -> Truth:
        """A literal equivalent to the conjunction."""
        if any(literal is False for literal in literals):
            return False
        free = [literal for literal in literals if literal is not True]
        if not free:
            return True
        if len(free) == 1:
            return free[0]
        both = self.model.new_bool_var(name)
        for literal in free:
            self.model.add_implication(both, literal)
        self.model.add_bool_or([both, *(~literal for literal in free)])
        return both

    def add_hint(self, hint: Hint) -> None:
        """Start the search from known starts and offload decisions."""
        for i, variable in self.starts.items():
            self.model.add_hint(variable, hint.starts[i])
        for key, variable in self.offloads.items():
            self.model.add_hint(variable, key in hint.offloaded)
        known = {**self.scope.around.earlier, **hint.starts}
        for literal, holds in self._meanings:
            self.model.add_hint(literal, holds(known))


def negated(literal: Truth) -> Truth:
    """The negation of a literal or of a settled answer."""
    return not literal if isinstance(literal, bool) else ~literal
