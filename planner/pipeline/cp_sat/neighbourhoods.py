"""Large neighbourhood search: which part of an incumbent is decided anew, and how large it is.

After Shaw (1998), "Using constraint programming and local search methods to solve vehicle routing
problems", with sizes that follow success as in adaptive large neighbourhood search (Ropke and
Pisinger, 2006).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random

from planner.errors import OrderError
from planner.pipeline.cp_sat.graph import precedence_graph
from planner.pipeline.cp_sat.incumbent import Incumbent
from planner.pipeline.cp_sat.readback import decided_ops
from planner.pipeline.cp_sat.scale import TimeScale
from planner.pipeline.cp_sat.scope import Scope
from planner.pipeline.cp_sat.solving import Assignment, Run
from planner.pipeline.cp_sat.window import Window
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import Objective, PipelineProblem
from planner.pipeline.schedule import Schedule, TimedOp
from planner.pipeline.timing import orders_of, time_orders

KINDS = ("time", "devices", "band", "mixture")
FIRST_SIZE = 60.0
"""Operations that the first neighbourhood of each kind decides."""
LEAST_SIZE = 12.0
GROWTH = 1.2
"""A kind grows by this factor when it was searched through and had nothing better."""
SHRINKAGE = 0.75
"""It shrinks by this factor when its time ran out."""


class NeighbourhoodSearch:
    """Chooses neighbourhoods of an incumbent and learns from what came of them."""

    time_limit_s = 4.0

    def __init__(
        self,
        problem: PipelineProblem,
        scale: TimeScale,
        seed: int,
        first_size: float = FIRST_SIZE,
    ) -> None:
        self.problem = problem
        self.scale = scale
        self.kind = KINDS[0]
        self._graph = precedence_graph(problem)
        self._random = Random(seed)
        self._size = dict.fromkeys(KINDS, first_size)
        self._of: Schedule | None = None
        self._window: Window | None = None
        by_stage = list(dict.fromkeys(stage.device for stage in problem.stages))
        self._place = {device: position for position, device in enumerate(by_stage)}

    def next_scope(self, best: Schedule, bound_ns: int) -> Scope | None:
        """A scope around part of the incumbent; None if that part leaves nothing to decide."""
        if self._of is not best:
            self._take_up(best)
        self.kind = self._random.choice(KINDS)
        free = set(self._choose(self._incumbent.ordered))
        if not free:
            return None
        self._window = Window(self._incumbent, self._latest, free, self.scale, self._end_ns)
        return self._window.scope(bound_ns)

    def _take_up(self, best: Schedule) -> None:
        self._of = best
        if self.problem.objective is Objective.MAKESPAN:
            # Windows start from the earliest times. Ties between operations without length may
            # leave an order that cannot be told from times alone; then the given times stand.
            with suppress(OrderError):
                best = time_orders(self.problem, orders_of(self.problem, best.ops))
        self._end_ns = objective_ns(self.problem, best)
        self._incumbent = Incumbent.of(self._graph, best)
        self._latest = self._incumbent.latest(best.makespan_ns)

    def assembled(self, found: Assignment, scope: Scope) -> list[TimedOp]:
        """All operations: decided ones at the solver's times, the others around them."""
        assert self._window is not None
        return [*self._window.kept_ops(), *decided_ops(scope, found)]

    def learn(self, run: Run | None, better: bool) -> None:
        """Let the kind that was just tried grow or shrink."""
        if better:
            return
        exhausted = run is not None and run.status in ("optimal", "infeasible")
        size = self._size[self.kind] * (GROWTH if exhausted else SHRINKAGE)
        self._size[self.kind] = min(max(size, LEAST_SIZE), float(len(self._graph.tokens)))

    def _choose(self, ops: list[int]) -> Iterator[int]:
        """The operations that one neighbourhood frees."""
        size = round(self._size[self.kind])
        tokens, device = self._graph.tokens, self._graph.device
        if self.kind == "time":
            yield from self._run_of(ops, size)
        elif self.kind == "devices":
            count = len(self._place)
            width = self._random.randint(1, max(1, count // 2))
            first = self._random.randint(0, count - width)
            group = range(first, first + width)
            yield from self._run_of([i for i in ops if self._place[device[i]] in group], size)
        elif self.kind == "band":
            per_micro_batch = max(1, len(ops) // self.problem.micro_batches)
            width = min(max(1, size // per_micro_batch), self.problem.micro_batches)
            starts = [i for i in ops if tokens[i].op == "F" and tokens[i].stage == 0]
            first = self._random.randint(0, self.problem.micro_batches - width)
            band = {tokens[i].micro_batch for i in starts[first : first + width]}
            yield from (i for i in ops if tokens[i].micro_batch in band)
        else:
            around = self._run_of(ops, 2 * size)
            pairs = sorted({tokens[i][1:] for i in around})
            chosen = {pair for pair in pairs if self._random.random() < 0.5}
            yield from (i for i in around if tokens[i][1:] in chosen)

    def _run_of(self, ops: list[int], size: int) -> list[int]:
        """So many operations that start one after the other."""
        first = self._random.randint(-size // 2, max(0, len(ops) - size // 2))
        return ops[max(0, first) : first + size]
