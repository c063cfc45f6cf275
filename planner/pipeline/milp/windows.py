"""How early and how late each operation can be, and what that and memory settle beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.pipeline.milp.graph import PrecedenceGraph
from planner.pipeline.problem import Objective
from planner.pipeline.schedule import Token

MOST_ROUNDS = 5
"""How often implied precedences are looked for again after some were found."""


class Frame:
    """How early and how late operations can be within what the objective measures.

    `head[i]`: least time from the frame's origin to the start of i. `rest[i]`: least time from
    the start of i to the frame's end. For the makespan all devices share one frame (first start
    of all to last end of all); for the steady span each device has its own, from its first start
    to its last end. -1 in `rest` says that nothing the frame measures follows i.
    """

    def __init__(self, graph: PrecedenceGraph, device: int | None) -> None:
        self.origin = None if device is None else graph.first_of_device(device)
        self.head = self._heads(graph)
        self.rest = self._rests(graph, device)

    def _heads(self, graph: PrecedenceGraph) -> list[int]:
        head = [0] * len(graph.tokens)
        # An origin of the frame later than zero measures only what follows that operation.
        inside = -1 if self.origin is None else graph.after[self.origin] | 1 << self.origin
        for a in graph.topological:
            if not inside >> a & 1:
                continue
            if graph.is_free[a]:
                for run in _sorted_runs(graph, graph.ended_by[a] & inside, a, head):
                    head[a] = max(head[a], run)
            for b, lag in graph.successors[a].items():
                head[b] = max(head[b], head[a] + lag)
        return head

    def _rests(self, graph: PrecedenceGraph, device: int | None) -> list[int]:
        rest = [-1] * len(graph.tokens)
        tail = [-1] * len(graph.tokens)
        for a in reversed(graph.topological):
            if graph.tokens[a].op in "FBW" and device in (None, graph.device[a]):
                epilogue = graph.problem.devices[graph.device[a]].epilogue_ns
                rest[a] = graph.duration[a] + epilogue
            for b, lag in graph.successors[a].items():
                if rest[b] >= 0:
                    rest[a] = max(rest[a], lag + rest[b])
            if rest[a] >= 0 and graph.is_free[a]:
                for run in _sorted_runs(graph, graph.after_end[a], a, tail):
                    rest[a] = max(rest[a], graph.certain_duration(a) + run)
            if rest[a] >= 0:
                tail[a] = rest[a] - graph.certain_duration(a)
        return rest


def _sorted_runs(graph: PrecedenceGraph, among: int, a: int, distance: list[int]) -> Iterator[int]:
    """For operations of a's device in `among`, farthest first: distance plus their total time."""
    same = [i for i in graph.compute_of_device[graph.device[a]] if among >> i & 1]
    total = 0
    for i in sorted(same, key=lambda i: -distance[i]):
        total += graph.duration[i]
        if distance[i] >= 0:
            yield distance[i] + total


class Windows:
    """Start windows of every operation given an upper bound `horizon_ns` on the objective."""

    def __init__(self, graph: PrecedenceGraph, horizon_ns: int) -> None:
        self.graph = graph
        self.horizon_ns = horizon_ns
        problem = graph.problem
        if problem.objective is Objective.MAKESPAN:
            self._frames = [Frame(graph, None)] * len(problem.devices)
        else:
            self._frames = [Frame(graph, d) for d in range(len(problem.devices))]
        self._set_absolute()

    def frame(self, i: int) -> Frame:
        """The frame that measures operation `i`'s device."""
        return self._frames[self.graph.device[i]]

    def _set_absolute(self) -> None:
        graph = self.graph
        root = self._frames[graph.device[0]]
        overall = root if root.origin is None else Frame(graph, None)
        self.earliest = overall.head
        self.latest = [
            self.horizon_ns - root.rest[i] if root.rest[i] >= 0 else -1
            for i in range(len(graph.tokens))
        ]
        if root.origin is None:
            return
        # The steady span of the first stage's device holds every F and B; a W after it is held
        # by the span of its own device, which begins with that device's first F.
        for i, latest in enumerate(self.latest):
            if latest < 0:
                frame = self.frame(i)
                assert frame.origin is not None
                self.latest[i] = self.latest[frame.origin] + self.horizon_ns - frame.rest[i]

    def largest_overlap(self, a: int, b: int) -> int:
        """The largest possible (end of a) - (start of b): the tightest big-M of "a before b"."""
        end = self.graph.duration[a]
        overlap = self.latest[a] + end - self.earliest[b]
        if self.graph.device[a] == self.graph.device[b]:
            frame = self.frame(a)
            if frame.rest[a] >= 0:
                overlap = min(overlap, self.horizon_ns - frame.rest[a] + end - frame.head[b])
        return overlap

    def cannot_precede(self, a: int, b: int) -> bool:
        """Whether a ending before b starts, on one device, would overrun the horizon."""
        frame = self.frame(a)
        least = frame.head[a] + self.graph.duration[a] + frame.rest[b]
        return frame.rest[b] >= 0 and least > self.horizon_ns


def tighten(
    graph: PrecedenceGraph,
    horizon_ns: int,
    *,
    by_memory: bool = True,
    check_time: Callable[[], None] = lambda: None,
) -> Windows:
    """Add the precedences that the horizon and memory imply, and return the start windows.

    Every schedule within `horizon_ns` satisfies them. Raises `Refuted` if there is none, and
    whatever `check_time` raises.
    """
    for _ in range(MOST_ROUNDS):
        check_time()
        windows = Windows(graph, horizon_ns)
        found = set(_implied_by_horizon(graph, windows)) | set(_implied_by_starts(graph))
        if by_memory:
            found.update(_implied_by_memory(graph))
        if not found:
            return windows
        for a, b in found:
            graph.add_sequence(a, b)
        graph.close()
    return Windows(graph, horizon_ns)


def _undecided(graph: PrecedenceGraph, device: int) -> Iterator[tuple[int, int]]:
    """Ordered pairs of exclusive operations of a device that nothing orders yet."""
    busy = [i for i in graph.free_compute(device) if graph.duration[i]]
    for a in busy:
        for b in busy:
            if a != b and not graph.precedes(a, b) and not graph.precedes(b, a):
                yield a, b


def _implied_by_starts(graph: PrecedenceGraph) -> Iterator[tuple[int, int]]:
    """Exclusive pairs of which one starts first, though nothing says yet that it ends first."""
    for d in range(len(graph.problem.devices) if graph.from_start else 0):
        busy = [i for i in graph.free_compute(d) if graph.duration[i]]
        for a in busy:
            for b in busy:
                if graph.precedes(a, b) and not graph.ends_before(a, b):
                    yield a, b


def _implied_by_horizon(graph: PrecedenceGraph, windows: Windows) -> Iterator[tuple[int, int]]:
    for d in range(len(graph.problem.devices)):
        for a, b in _undecided(graph, d):
            if windows.cannot_precede(b, a):
                yield a, b


def _implied_by_memory(graph: PrecedenceGraph) -> Iterator[tuple[int, int]]:
    """Pairs (x, a): a allocates, and does not fit before x has ended."""
    for d, group in enumerate(graph.compute_of_device):
        limit = graph.problem.devices[d].activation_memory_bytes
        if limit is None:
            continue
        residents = [_Resident(graph, i) for i in group if graph.tokens[i].op == "F"]
        for x, a in _undecided(graph, d):
            frees = graph.tokens[x].op in "BW"
            allocates = graph.tokens[a].op in "FB"
            if frees and allocates:
                started = graph.before[a] | 1 << a
                held_back = graph.after[a] | 1 << a | graph.after[x] | 1 << x
                if sum(r.least_bytes(a, started, held_back) for r in residents) > limit:
                    yield x, a


class _Resident:
    """The activation of one stage and micro-batch, and the least memory it can take."""

    def __init__(self, graph: PrecedenceGraph, forward: int) -> None:
        _, s, m = graph.tokens[forward]
        stage = graph.problem.stages[s]
        self.forward = forward
        self.backward = graph.index[Token("B", s, m)]
        self.weight = graph.index.get(Token("W", s, m), self.backward)
        self.own = {forward, self.backward, self.weight}
        self.full = stage.activation_bytes[m]
        self.off_device = self.full - stage.offload_bytes[m]
        self.late = stage.late_bytes(m)
        self.during_backward = self.full + stage.backward_allocation_bytes(m)

    def least_bytes(self, a: int, started: int, held_back: int) -> int:
        """Least memory when a starts, given what has started and what has not ended by then."""
        if not started >> self.forward & 1:
            return 0
        if a == self.backward:
            return self.during_backward
        least = self.full if a in self.own else self.off_device
        if not held_back >> self.backward & 1:
            least = min(least, self.late if held_back >> self.weight & 1 else 0)
        return least
