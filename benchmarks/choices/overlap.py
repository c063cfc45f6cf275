"""A schedule executed where copies overlap: those of a link share what it carries.

Written apart from the planner's own timing, in which a link serves one copy after the other. Here
each device has a stream of offloads and one of reloads, which do one copy after the other in the
order of the schedule, whatever other devices do: a copy alone on its link and in its direction
takes its full time, and of k copies each goes at the rate min(1, capacity / k). `capacity` is how
many copies' worth the link carries in one direction at once: 1 where one copy fills it, more where
one alone does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from math import ceil
from operator import attrgetter

from planner.errors import OrderError
from planner.pipeline.effects import data_dependencies, memory_effects
from planner.pipeline.orders import Channel, orders_of
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule, Token

DONE_NS = 0.5
"""So little of a copy is none."""


class Keeps(StrEnum):
    """What ranks keep of a schedule: the order of their own operations; its waits as well; or also
    the order of the copies on a link that several devices share, as ranks that run an export do."""

    ORDER = "order alone"
    WAITS = "waits"
    LINKS = "waits and links"


@dataclass(frozen=True)
class Executed:
    """What came of it: the makespan (ns), and per device the most bytes in use."""

    makespan_ns: int
    peaks_bytes: tuple[int, ...]


class Overlapping:
    """One execution. Each device starts its F, B, W and R in the schedule's order, each as soon as
    its data is there and what the ranks keep allows. Nothing else holds memory limits. `problem`
    has the true times, whatever the schedule was made for."""

    def __init__(
        self, problem: PipelineProblem, schedule: Schedule, capacity: float, keeps: Keeps
    ) -> None:
        self.problem, self.capacity = problem, capacity
        self.sequences = orders_of(problem, schedule.ops).compute
        self.after = _after(problem, schedule, keeps)
        self.all = {op.token for op in schedule.ops}
        self.duration_ns = {token: _duration_ns(problem, token) for token in self.all}
        self.next_token = [0] * len(self.sequences)
        self.free_ns = [0] * len(self.sequences)
        self.streams = _streams(problem, schedule)
        self.next_copy = dict.fromkeys(self.streams, 0)
        self.end_ns: dict[Token, int] = {}
        self.copies: dict[Channel, dict[Token, float]] = defaultdict(dict)
        self.used = [0] * len(problem.devices)
        self.peaks = [0] * len(problem.devices)
        self.computing: dict[Token, int] = {}
        self.now = 0

    def run(self) -> Executed:
        """Everything. Raises `OrderError` where nothing more can start."""
        while True:
            while self._start_all():
                pass
            following = self._next_instant()
            if following is None:
                break
            self._go_on(following)
        if len(self.end_ns) < len(self.all):
            raise OrderError("the orders and waits of the schedule deadlock")
        last_ns = [0] * len(self.used)
        for (op, s, _), end in self.end_ns.items():
            device = self.problem.stages[s].device
            last_ns[device] = max(last_ns[device], end if op in "FBW" else 0)
        ends = (
            end + device.epilogue_ns
            for end, device in zip(last_ns, self.problem.devices, strict=True)
        )
        return Executed(max(ends), tuple(self.peaks))

    def _start_all(self) -> bool:
        """Start what can start now; whether anything could."""
        started = False
        for device, tokens in enumerate(self.sequences):
            while self.next_token[device] < len(tokens):
                token = tokens[self.next_token[device]]
                if token.op == "R":
                    may_start = self._is_next_copy(device, token)
                else:
                    may_start = self.free_ns[device] <= self.now
                if not (may_start and self._is_ready(token)):
                    break
                self._start(token)
                self.next_token[device] += 1
                started = True
        for (device, op), copies in self.streams.items():
            if op == "R" or self.next_copy[device, op] == len(copies):
                continue
            token = copies[self.next_copy[device, op]]
            if self._is_next_copy(device, token) and self._is_ready(token):
                self._start(token)
                started = True
        return started

    def _is_next_copy(self, device: int, token: Token) -> bool:
        """Whether its device's stream has come to it and has nothing under way."""
        place = self.next_copy[device, token.op]
        copies = self.streams[device, token.op]
        is_idle = place == 0 or copies[place - 1] in self.end_ns
        return is_idle and copies[place] == token

    def _is_ready(self, token: Token) -> bool:
        return all(
            before in self.end_ns and self.end_ns[before] + lag_ns <= self.now
            for before, lag_ns in data_dependencies(self.problem, token)
            if before in self.all
        ) and all(before in self.end_ns for before in self.after.get(token, ()))

    def _start(self, token: Token) -> None:
        self._account(token, at_end=False)
        if token.op in "OR":
            channel = self.problem.channel(token.stage, token.op)
            self.copies[channel][token] = self.duration_ns[token]
            self.next_copy[self.problem.stages[token.stage].device, token.op] += 1
            return
        end = self.now + self.duration_ns[token]
        self.computing[token] = end
        self.free_ns[self.problem.stages[token.stage].device] = end

    def _account(self, token: Token, *, at_end: bool) -> None:
        for (where, number), allocated, freed in memory_effects(self.problem, token):
            if where == "device":
                self.used[number] += -freed if at_end else allocated
                self.peaks[number] = max(self.peaks[number], self.used[number])

    def _next_instant(self) -> int | None:
        """When something ends or arrives next; None if nothing is under way."""
        copied = (
            self.now + ceil(min(copies.values()) / self._rate(copies))
            for copies in self.copies.values()
            if copies
        )
        arrivals = (instant for instant in self._arrivals() if instant > self.now)
        return min(chain(self.computing.values(), copied, arrivals), default=None)

    def _arrivals(self) -> Iterator[int]:
        """When what the devices are to start next arrives, where that is known."""
        return (
            self.end_ns[before] + lag_ns
            for device, tokens in enumerate(self.sequences)
            if self.next_token[device] < len(tokens)
            for before, lag_ns in data_dependencies(self.problem, tokens[self.next_token[device]])
            if before in self.end_ns
        )

    def _rate(self, copies: dict[Token, float]) -> float:
        return min(1.0, self.capacity / len(copies))

    def _go_on(self, until: int) -> None:
        """Let time pass, and end what ends."""
        ended = [token for token, end in self.computing.items() if end == until]
        for token in ended:
            del self.computing[token]
        for copies in self.copies.values():
            passed = (until - self.now) * self._rate(copies) if copies else 0.0
            for token in list(copies):
                copies[token] -= passed
                if copies[token] <= DONE_NS:
                    del copies[token]
                    ended.append(token)
        self.now = until
        for token in ended:
            self.end_ns[token] = until
            self._account(token, at_end=True)


def _after(
    problem: PipelineProblem, schedule: Schedule, keeps: Keeps
) -> dict[Token, tuple[Token, ...]]:
    """What else an operation waits for."""
    if keeps is Keeps.ORDER:
        return {}
    after = {wait.token: wait.after for wait in schedule.waits or ()}
    last: dict[Channel, Token] = {}
    for op in schedule.ops if keeps is Keeps.LINKS else ():
        if op.op in "OR":
            channel = problem.channel(op.stage, op.op)
            if channel in last:
                after[op.token] = (*after.get(op.token, ()), last[channel])
            last[channel] = op.token
    return after


def _streams(problem: PipelineProblem, schedule: Schedule) -> dict[tuple[int, str], list[Token]]:
    """The copies of each device in each direction, in the order of their starts."""
    streams: dict[tuple[int, str], list[Token]] = defaultdict(list)
    for op in sorted(schedule.ops, key=attrgetter("start_ns")):
        if op.op in "OR":
            streams[problem.stages[op.stage].device, op.op].append(op.token)
    return streams


def _duration_ns(problem: PipelineProblem, token: Token) -> int:
    op, s, m = token
    stage = problem.stages[s]
    times = {
        "F": stage.forward_ns,
        "B": stage.backward_input_ns,
        "W": stage.backward_weight_ns,
        "O": stage.offload_ns,
        "R": stage.reload_ns,
    }
    return times[op][m]
