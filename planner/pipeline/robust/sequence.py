"""The sequence in which a timed schedule's operations can be executed one after the other.

Starts decide, but operations of no length share their instants: a schedule may free and allocate
within one instant in an order that its times do not tell.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import groupby
from operator import attrgetter

from planner.pipeline.effects import MemoryKey, data_dependencies, memory_effects, memory_limits
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import TimedOp, Token

MOST_STEPS = 20_000
"""After so many steps beside those that place an operation, an instant has no order that fits."""

RANK = {"F": 0, "O": 1, "R": 2, "B": 3, "W": 4}


def in_sequence(problem: PipelineProblem, ops: Iterable[TimedOp]) -> tuple[TimedOp, ...]:
    """The operations of a valid schedule by start, those of one instant so that each comes after
    what it depends on and, where such an order is found, fits into memory."""
    depth = len(problem.stages)

    def by_start(op: TimedOp) -> tuple[int, bool, int, bool, int, int]:
        # Operations of no length come first: they may free what the others of the instant need.
        # Each micro-batch goes as far as it can: forwards down the stages, backwards up. Among
        # the others, those of the compute queue come first, for a late transfer not to stop them.
        stage = op.stage if op.op in "FO" else depth - op.stage
        takes_time = op.end_ns > op.start_ns
        in_transfer = takes_time and op.op in "OR"
        return op.start_ns, takes_time, op.micro_batch, in_transfer, RANK[op.op], stage

    ordered = sorted(ops, key=by_start)
    if all(op.end_ns > op.start_ns for op in ordered):
        return tuple(ordered)
    replay = _Replay(problem)
    sequence: list[TimedOp] = []
    for _, instant in groupby(ordered, key=attrgetter("start_ns")):
        sequence += replay.order(list(instant))
    return tuple(sequence)


class _Replay:
    """The schedule instant by instant, with the bytes in use."""

    def __init__(self, problem: PipelineProblem) -> None:
        self._problem = problem
        self._limits = memory_limits(problem)
        self._used: dict[MemoryKey, int] = defaultdict(int)
        self._running: list[tuple[int, Token]] = []

    def order(self, instant: Sequence[TimedOp]) -> list[TimedOp]:
        """The operations that start at one instant in sequence; they start, and those that take
        no time end."""
        now = instant[0].start_ns
        while self._running and self._running[0][0] <= now:
            self.end(heappop(self._running)[1])
        lasting = [op for op in instant if op.end_ns > op.start_ns]
        passing = [op for op in instant if op.end_ns == op.start_ns]
        ordered = [passing[k] for k in _InstantSearch(self._problem, self, passing).run()]
        for op in lasting:
            self.start(op.token)
            heappush(self._running, (op.end_ns, op.token))
        return ordered + lasting

    def fits(self, token: Token) -> bool:
        """Whether the operation may start with what is in use now."""
        for key, allocated, _ in memory_effects(self._problem, token):
            limit = self._limits.get(key)
            if limit is not None and allocated and self._used[key] + allocated > limit:
                return False
        return True

    def start(self, token: Token) -> None:
        for key, allocated, _ in memory_effects(self._problem, token):
            self._used[key] += allocated

    def end(self, token: Token) -> None:
        for key, _, freed in memory_effects(self._problem, token):
            self._used[key] -= freed

    def undo(self, token: Token) -> None:
        """Take back the start and the end of an operation."""
        for key, allocated, freed in memory_effects(self._problem, token):
            self._used[key] += freed - allocated


class _InstantSearch:
    """A depth-first search for an order in which operations of no length fit one by one.

    What leaves no more in use is tried first, which nearly always is an order at once.
    """

    def __init__(self, problem: PipelineProblem, replay: _Replay, ops: Sequence[TimedOp]) -> None:
        self._replay = replay
        self._tokens = [op.token for op in ops]
        place = {token: k for k, token in enumerate(self._tokens)}
        self._blockers = [0] * len(ops)
        self._followers: list[list[int]] = [[] for _ in ops]
        for k, token in enumerate(self._tokens):
            for earlier, _ in data_dependencies(problem, token):
                if earlier in place:
                    self._followers[place[earlier]].append(k)
                    self._blockers[k] += 1
        self._entries = [
            (any(more > less for _, more, less in memory_effects(problem, token)), k)
            for k, token in enumerate(self._tokens)
        ]
        self._ready = sorted(entry for entry in self._entries if not self._blockers[entry[1]])

    def run(self) -> list[int]:
        """Run everything; the order found, or one that follows the dependencies only."""
        path: list[int] = []
        tried: list[tuple[bool, int] | None] = [None]
        done = 0
        dead_ends: set[int] = set()
        steps = 0
        while len(path) < len(self._tokens) and steps < MOST_STEPS + 2 * len(self._tokens):
            steps += 1
            entry = self._next_fitting(tried[-1])
            if entry is not None:
                tried[-1] = entry
                if done | 1 << entry[1] not in dead_ends:
                    done |= 1 << entry[1]
                    self._run(entry[1])
                    path.append(entry[1])
                    tried.append(None)
            elif path:
                dead_ends.add(done)
                done ^= 1 << path[-1]
                self._take_back(path.pop())
                tried.pop()
            else:
                break
        while self._ready:
            _, k = self._ready[0]
            self._run(k)
            path.append(k)
        return path

    def _next_fitting(self, after: tuple[bool, int] | None) -> tuple[bool, int] | None:
        first = 0 if after is None else bisect_right(self._ready, after)
        for i in range(first, len(self._ready)):
            if self._replay.fits(self._tokens[self._ready[i][1]]):
                return self._ready[i]
        return None

    def _run(self, k: int) -> None:
        self._ready.remove(self._entries[k])
        self._replay.start(self._tokens[k])
        self._replay.end(self._tokens[k])
        for later in self._followers[k]:
            self._blockers[later] -= 1
            if not self._blockers[later]:
                insort(self._ready, self._entries[later])

    def _take_back(self, k: int) -> None:
        for later in self._followers[k]:
            if not self._blockers[later]:
                self._ready.remove(self._entries[later])
            self._blockers[later] += 1
        self._replay.undo(self._tokens[k])
        insort(self._ready, self._entries[k])
