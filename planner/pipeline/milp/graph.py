"""What must precede what in every schedule: the fixed part of the pipeline's MILP.

Nodes are operations (F, B, W, and O and R where a stage may offload), an edge (a, b) says that b
starts at least `lag` after a starts. O and R of a micro-batch that turns out not to be offloaded
stay in the graph as points without length between F and B, so the lag after a transfer whose
offload is undecided is 0 here and its length times the offload decision in the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from planner.errors import Refuted
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Token


def token_duration(problem: PipelineProblem, token: Token) -> int:
    """How long an operation takes, in ns."""
    stage = problem.stages[token.stage]
    times = {
        "F": stage.forward_ns,
        "B": stage.backward_input_ns,
        "W": stage.backward_weight_ns,
        "O": stage.offload_ns,
        "R": stage.reload_ns,
    }
    return times[token.op][token.micro_batch]


def transfers_alike(problem: PipelineProblem, stage: int) -> bool:
    """Whether any two offloads of a stage may change places: same bytes, same times."""
    values = problem.stages[stage]
    shapes = {
        (values.offload_bytes[m], values.offload_ns[m], values.reload_ns[m])
        for m in range(problem.micro_batches)
        if values.offload_bytes[m]
    }
    return len(shapes) <= 1


class PrecedenceGraph:
    """Operations of a problem under fixed micro-batch order with what precedes what.

    `offload` gives the decision (True, False) of those (stage, micro_batch) whose offload is
    settled; the others that can offload are open. `is_free` marks the operations whose order
    among themselves is to be decided: all, until a window leaves only its own and orders the rest
    by edges. Tokens are numbered; sets of operations are bit masks over these numbers. Times are
    ns.
    """

    def __init__(
        self, problem: PipelineProblem, offload: Mapping[tuple[int, int], bool] | None = None
    ) -> None:
        self.problem = problem
        self.settled = dict(offload or {})
        self.tokens: list[Token] = list(self._list_tokens())
        self.index = {token: i for i, token in enumerate(self.tokens)}
        self.duration = [token_duration(problem, token) for token in self.tokens]
        self.device = [problem.stages[token.stage].device for token in self.tokens]
        self.successors: list[dict[int, int]] = [{} for _ in self.tokens]
        self.from_start: set[tuple[int, int]] = set()
        self.is_free = [True] * len(self.tokens)
        self._add_data_dependencies()
        self._add_micro_batch_order()
        self.close()

    def _list_tokens(self) -> Iterator[Token]:
        for s, stage in enumerate(self.problem.stages):
            for m in range(self.problem.micro_batches):
                yield Token("F", s, m)
                yield Token("B", s, m)
                if stage.has_weight_op(m):
                    yield Token("W", s, m)
                if stage.offload_bytes[m] and self.settled.get((s, m), True):
                    yield Token("O", s, m)
                    yield Token("R", s, m)

    def is_open(self, i: int) -> bool:
        """Whether operation `i` is a transfer that may turn out not to happen."""
        op, s, m = self.tokens[i]
        return op in "OR" and (s, m) not in self.settled

    def certain_duration(self, i: int) -> int:
        """The time that operation `i` takes in every schedule."""
        return 0 if self.is_open(i) else self.duration[i]

    def add_edge(self, a: int, b: int, lag: int) -> None:
        """b starts at least `lag` after a starts."""
        self.successors[a][b] = max(lag, self.successors[a].get(b, 0))

    def add_sequence(self, a: int, b: int) -> None:
        """b starts after a has ended."""
        self.from_start.discard((a, b))
        self.add_edge(a, b, self.certain_duration(a))

    def add_start_order(self, a: int, b: int) -> None:
        """b starts no sooner than a starts, whether or not a has ended."""
        if b not in self.successors[a]:
            self.from_start.add((a, b))
            self.add_edge(a, b, 0)

    def _add_data_dependencies(self) -> None:
        problem, index = self.problem, self.index
        for i, (op, s, m) in enumerate(self.tokens):
            if op == "F":
                if s + 1 < len(problem.stages):
                    latency = problem.transfers[s].forward_ns[m]
                    self.add_edge(i, index[Token("F", s + 1, m)], self.duration[i] + latency)
                self.add_sequence(i, index[Token("B", s, m)])
            elif op == "B":
                if s:
                    latency = problem.transfers[s - 1].backward_ns[m]
                    self.add_edge(i, index[Token("B", s - 1, m)], self.duration[i] + latency)
                if problem.stages[s].has_weight_op(m):
                    self.add_sequence(i, index[Token("W", s, m)])
            elif op == "O":
                self.add_sequence(index[Token("F", s, m)], i)
                self.add_sequence(i, index[Token("R", s, m)])
            elif op == "R":
                self.add_sequence(i, index[Token("B", s, m)])

    def _add_micro_batch_order(self) -> None:
        """F, B and W in micro-batch order; O and R too where they may change places.

        The rule orders neighbours only: where a micro-batch has no W, those of the one before and
        the one after it are free.
        """
        previous: dict[tuple[str, int], int] = {}
        for i, (op, s, m) in enumerate(self.tokens):
            if op in "OR" and not transfers_alike(self.problem, s):
                continue
            before = previous.get((op, s))
            if before is not None and (op in "OR" or self.tokens[before].micro_batch == m - 1):
                self.add_sequence(before, i)
            previous[op, s] = i

    def close(self) -> None:
        """Recompute the topological order and the closure after edges were added.

        `before` and `after` hold what starts no later and no sooner, `ended_by` what has ended
        when an operation starts, `after_end` what starts once it has ended.

        Raises `Refuted` if the edges form a cycle: then no schedule satisfies them.
        """
        count = len(self.tokens)
        incoming = [0] * count
        for edges in self.successors:
            for b in edges:
                incoming[b] += 1
        ready = [i for i in range(count) if not incoming[i]]
        self.topological: list[int] = []
        while ready:
            a = ready.pop()
            self.topological.append(a)
            for b in self.successors[a]:
                incoming[b] -= 1
                if not incoming[b]:
                    ready.append(b)
        if len(self.topological) < count:
            raise Refuted("the precedences form a cycle")
        self.after = [0] * count
        self._later = [0] * count
        for a in reversed(self.topological):
            for b, lag in self.successors[a].items():
                reached = self.after[b] | 1 << b
                self.after[a] |= reached
                self._later[a] |= reached if lag else self._later[b]
        self.before = [0] * count
        self.after_end = [0] * count
        self.ended_by = [0] * count
        for a in self.topological:
            for b in self.successors[a]:
                self.before[b] |= self.before[a] | 1 << a
                self.ended_by[b] |= self.ended_by[a]
                if (a, b) not in self.from_start:
                    self.after_end[a] |= self.after[b] | 1 << b
                    self.ended_by[b] |= 1 << a

    def precedes(self, a: int, b: int) -> bool:
        """Whether a starts no later than b in every schedule."""
        return bool(self.after[a] >> b & 1)

    def ends_before(self, a: int, b: int) -> bool:
        """Whether a ends no later than b starts in every schedule (if a happens at all)."""
        return bool(self.after_end[a] >> b & 1)

    def ends_later(self, a: int, b: int) -> bool:
        """Whether a ends strictly after b starts in every schedule."""
        if self._later[b] >> a & 1:
            return True
        return (a == b or self.precedes(b, a)) and self.certain_duration(a) > 0

    @cached_property
    def compute_of_device(self) -> list[list[int]]:
        """F, B and W of each device."""
        groups: list[list[int]] = [[] for _ in self.problem.devices]
        for i, token in enumerate(self.tokens):
            if token.op in "FBW":
                groups[self.device[i]].append(i)
        return groups

    def free_compute(self, device: int) -> list[int]:
        """F, B and W of a device whose order among themselves may still change."""
        return [i for i in self.compute_of_device[device] if self.is_free[i]]

    @cached_property
    def transfers_of_device(self) -> list[list[int]]:
        """O and R of each device."""
        groups: list[list[int]] = [[] for _ in self.problem.devices]
        for i, token in enumerate(self.tokens):
            if token.op in "OR":
                groups[self.device[i]].append(i)
        return groups

    def first_of_device(self, device: int) -> int | None:
        """The operation with which a device always begins; None if it has no stage."""
        stages = self.problem.stages_of_device[device]
        return self.index[Token("F", stages[0], 0)] if stages else None
