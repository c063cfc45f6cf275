"""The scope of a window: part of an incumbent decided anew between what comes before and after.

What starts before the window keeps its times. What starts after it stands as late as the
incumbent's order and objective allow and moves forward as one block, by the gain. Any schedule
that keeps the order outside the window can be brought into this form, so nothing is lost by it,
and the model has only the window's operations.

The steady span has no such form, since delaying a device's first operation may shorten its span:
there all operations are decided, and those outside the window only keep their order.
"""

from __future__ import annotations

import itertools

from planner.pipeline.cp_sat.incumbent import Incumbent
from planner.pipeline.cp_sat.scale import TimeScale
from planner.pipeline.cp_sat.scope import Hint, Scope, Surroundings
from planner.pipeline.cp_sat.surroundings import Limits
from planner.pipeline.problem import Objective
from planner.pipeline.schedule import TimedOp, Token

Pair = tuple[int, int]


class Window:
    """The operations that start while those of `free` do. The others among them keep their order.

    `latest` are the latest starts of the incumbent's order (ns), `end_ns` is its objective.
    """

    def __init__(
        self,
        incumbent: Incumbent,
        latest: dict[int, int],
        free: set[int],
        scale: TimeScale,
        end_ns: int,
    ) -> None:
        self.incumbent = incumbent
        self.latest = latest
        self.free = free
        self.scale = scale
        self.end_ns = end_ns
        start = incumbent.start
        opens, closes = min(start[i] for i in free), max(start[i] for i in free)
        if incumbent.graph.problem.objective is Objective.STEADY_SPAN:
            opens, closes = 0, max(start.values())
        self.earlier = {i for i in start if start[i] < opens}
        self.later = {i for i in start if start[i] > closes}
        self.decided = set(start) - self.earlier - self.later
        self.settled = self._settle_offloads()

    def _settle_offloads(self) -> dict[Pair, bool]:
        """Keep the offload decisions that the window leaves; add the transfers it may add."""
        graph = self.incumbent.graph
        problem, start = graph.problem, self.incumbent.start
        free_pairs = {graph.tokens[i][1:] for i in self.free}
        settled = {}
        for s, stage in enumerate(problem.stages):
            for m, size in enumerate(stage.offload_bytes):
                if not size:
                    continue
                offload, reload = (graph.index[Token(op, s, m)] for op in ("O", "R"))
                forward, backward = (graph.index[Token(op, s, m)] for op in ("F", "B"))
                if offload in start:
                    both_inside = offload in self.decided and reload in self.decided
                    if not both_inside or (s, m) not in free_pairs:
                        settled[s, m] = True
                elif (
                    (s, m) in free_pairs
                    and forward not in self.later
                    and backward not in self.earlier
                ):
                    self.decided |= {offload, reload}
                else:
                    settled[s, m] = False
        return settled

    def scope(self, bound_ns: int) -> Scope | None:
        """The window as a scope, given a proven bound; None if there is nothing to decide."""
        if self.incumbent.graph.problem.objective is Objective.STEADY_SPAN:
            return self._scope_of_span(bound_ns)
        limits = Limits(self)
        most_gain = min(self.end_ns - bound_ns, limits.room_of_block())
        earliest, latest = limits.domains()
        if most_gain < 0 or any(earliest[i] > latest[i] for i in self.decided):
            return None
        units = self.scale.units
        around = Surroundings(
            earlier={i: units(self.incumbent.start[i]) for i in self.earlier},
            later=self.later,
            most_gain=units(most_gain),
            end_by={i: units(ns) for i, ns in limits.end_by.items()},
            start_by={i: units(ns) for i, ns in limits.start_by.items()},
            offload=self.settled,
            sequences=self._sequences(),
            turn=self._turns(),
        )
        return Scope(
            self.incumbent.graph,
            self.scale,
            {i: units(earliest[i]) for i in self.decided},
            {i: units(latest[i]) for i in self.decided},
            0,
            units(self.end_ns),
            around,
            self._hint(earliest),
        )

    def _scope_of_span(self, bound_ns: int) -> Scope:
        most = -(-self.end_ns // self.scale.unit_ns)
        horizon = 2 * most + self.scale.units(max(self.incumbent.start.values()))
        return Scope(
            self.incumbent.graph,
            self.scale,
            dict.fromkeys(self.decided, 0),
            dict.fromkeys(self.decided, horizon),
            self.scale.least_objective_units(bound_ns),
            most,
            Surroundings(offload=self.settled, sequences=self._sequences(), turn=self._turns()),
            self._hint(dict.fromkeys(self.decided, 0)),
        )

    def _kept(self, row: list[int]) -> list[int]:
        return [i for i in row if i in self.decided and i not in self.free]

    def _sequences(self) -> tuple[tuple[int, int], ...]:
        rows = [*self.incumbent.computations, *self.incumbent.transfers.values()]
        kept = [self._kept(row) for row in rows]
        return tuple(pair for row in kept for pair in itertools.pairwise(row))

    def _turns(self) -> dict[int, int]:
        rows = map(self._kept, self.incumbent.computations)
        return {i: position for row in rows for position, i in enumerate(row)}

    def _hint(self, earliest: dict[int, int]) -> Hint:
        """The incumbent; transfers that it lacks as early as the model may put them."""
        graph, start = self.incumbent.graph, self.incumbent.start
        at = {i: start.get(i, earliest[i]) for i in self.decided}
        for a in graph.topological:
            if a in self.decided or a in self.earlier:
                ends = self.incumbent.end(a) if a in start else at[a]
                for b in graph.successors[a]:
                    if b in self.decided and b not in start:
                        at[b] = max(at[b], ends)
        pairs = {graph.tokens[i][1:] for i in self.decided if graph.tokens[i].op == "O"}
        offloaded = {pair for pair in pairs if graph.index[Token("O", *pair)] in start}
        return Hint({i: self.scale.units(ns) for i, ns in at.items()}, offloaded)

    def kept_ops(self) -> list[TimedOp]:
        """The operations around the window; those after it as late as they can be."""
        graph = self.incumbent.graph
        times = {i: self.incumbent.start[i] for i in self.earlier}
        times |= {i: self.latest[i] for i in self.later}
        return [
            TimedOp(*graph.tokens[i], when, when + graph.duration[i]) for i, when in times.items()
        ]
