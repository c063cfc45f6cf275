"""How early and late a window's operations can be between what comes before and after it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from planner.pipeline.cp_sat.graph import happening_precedences

if TYPE_CHECKING:
    from planner.pipeline.cp_sat.window import Window


class Limits:
    """Limits in ns on the decided operations of a window, at a gain of 0.

    They keep the order between the window and its surroundings: the window's operations use a
    device or link, and allocate, after those before and ahead of those behind; and they free what
    a later allocation relied on before it starts.
    """

    def __init__(self, window: Window) -> None:
        self.window = window
        self.incumbent = window.incumbent
        self.graph = window.incumbent.graph
        self.at_least = dict.fromkeys(window.decided, 0)
        self.end_by: dict[int, int] = {}
        self.start_by: dict[int, int] = {}
        self.inner: list[tuple[int, int, int]] = []
        self._add_precedences()
        self._add_objective()
        self._add_resources()
        self._add_frees()

    def _must_end(self, i: int, by: int) -> None:
        self.end_by[i] = min(by, self.end_by.get(i, by))

    def _must_start(self, i: int, by: int) -> None:
        self.start_by[i] = min(by, self.start_by.get(i, by))

    def _certain_duration(self, i: int) -> int:
        op, s, m = self.graph.tokens[i]
        is_open = op in "OR" and (s, m) not in self.window.settled
        return 0 if is_open else self.graph.duration[i]

    def _add_precedences(self) -> None:
        window, duration = self.window, self.graph.duration
        happening = window.decided | window.earlier | window.later
        for a, b, lag in happening_precedences(self.graph, happening.__contains__):
            after_start = self._certain_duration(a) if self.graph.tokens[a].op in "OR" else lag
            if b in window.decided and a in window.earlier:
                self.at_least[b] = max(self.at_least[b], self.incumbent.start[a] + after_start)
            elif b in window.decided and a in window.decided:
                self.inner.append((a, b, after_start))
            elif a in window.decided:
                own = duration[a] if self.graph.tokens[a].op in "FBW" else after_start
                self._must_end(a, window.latest[b] - after_start + own)

    def _add_objective(self) -> None:
        devices = self.graph.problem.devices
        for i in self.window.decided:
            if self.graph.tokens[i].op in "FBW":
                epilogue = devices[self.graph.device[i]].epilogue_ns
                self._must_end(i, self.window.end_ns - epilogue)

    def _add_resources(self) -> None:
        incumbent, graph, problem = self.incumbent, self.graph, self.graph.problem
        for i in self.window.decided:
            op, s, _ = graph.tokens[i]
            if incumbent.is_busy(i):
                self._use(i, incumbent.computations[graph.device[i]])
            if incumbent.allocates(i):
                self._allocate(i, incumbent.allocations[graph.device[i]])
            if op in "OR" and graph.duration[i]:
                self._use(i, incumbent.transfers.get(problem.channel(s, op), []))
            host = incumbent.limited_host(i)
            if op == "O" and host is not None:
                self._allocate(i, incumbent.arrivals.get(host, []))

    def _use(self, i: int, row: list[int]) -> None:
        before, after = self._neighbours(row)
        if before is not None:
            self.at_least[i] = max(self.at_least[i], self.incumbent.end(before))
        if after is not None:
            self._must_end(i, self.window.latest[after])

    def _allocate(self, i: int, row: list[int]) -> None:
        before, after = self._neighbours(row)
        if before is not None:
            self.at_least[i] = max(self.at_least[i], self.incumbent.start[before])
        if after is not None:
            self._must_start(i, self.window.latest[after])

    def _neighbours(self, row: Iterable[int]) -> tuple[int | None, int | None]:
        """The last of a row before the window, and the first after it."""
        before = None
        for i in row:
            if i in self.window.later:
                return before, i
            if i in self.window.earlier:
                before = i
        return before, None

    def _add_frees(self) -> None:
        incumbent, graph = self.incumbent, self.graph
        for i in self.window.decided:
            op = graph.tokens[i].op
            if op in "BWO":
                self._free(i, incumbent.allocations[graph.device[i]])
            host = incumbent.limited_host(i)
            if op == "R" and host is not None:
                self._free(i, incumbent.arrivals.get(host, []))

    def _free(self, i: int, row: list[int]) -> None:
        """Before the first later allocation that came after it; a new transfer before all."""
        later = [a for a in row if a in self.window.later]
        if i in self.incumbent.start:
            first = self.incumbent.first_after_free(i, later)
        else:
            first = later[0] if later else None
        if first is not None:
            self._must_end(i, self.window.latest[first])

    def room_of_block(self) -> int:
        """How far what is after the window can move towards what is before it."""
        window, incumbent = self.window, self.incumbent
        devices = self.graph.problem.devices
        rooms = [
            window.latest[b] - lag - incumbent.start[a]
            for a, b, lag in incumbent.arcs
            if a in window.earlier and b in window.later
        ]
        rooms += [
            window.end_ns - devices[self.graph.device[i]].epilogue_ns - incumbent.end(i)
            for i in window.earlier
            if self.graph.tokens[i].op in "FBW"
        ]
        rooms += [window.latest[i] for i in window.later]
        return min(rooms, default=window.end_ns)

    def domains(self) -> tuple[dict[int, int], dict[int, int]]:
        """Earliest and latest starts of the decided operations at a gain of 0."""
        earliest = dict(self.at_least)
        latest = {i: self.window.end_ns - self._certain_duration(i) for i in self.window.decided}
        for i, by in self.end_by.items():
            latest[i] = min(latest[i], by - self._certain_duration(i))
        for i, by in self.start_by.items():
            latest[i] = min(latest[i], by)
        place = {i: position for position, i in enumerate(self.graph.topological)}
        self.inner.sort(key=lambda edge: place[edge[0]])
        for a, b, lag in self.inner:
            earliest[b] = max(earliest[b], earliest[a] + lag)
        for a, b, lag in sorted(self.inner, key=lambda edge: -place[edge[1]]):
            latest[a] = min(latest[a], latest[b] - lag)
        return earliest, latest
