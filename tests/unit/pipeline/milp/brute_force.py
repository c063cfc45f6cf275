"""Exhaustive search for a schedule below a given objective, sharing no code with the MILP.

Operations are started in the order of their start times, each as early as the data, the devices,
the links and the memory allow after those started before it. Any schedule can be pushed left
into one of these without getting longer; for the steady span the first operation of a device may
also wait, so all its (whole) start times are tried.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.pipeline.problem import MicroBatchOrder, Objective, PipelineProblem
from planner.pipeline.schedule import Token


class TooLarge(Exception):
    """The search met more nodes than it may."""


class ExhaustiveSearch:
    """Looks for a schedule whose objective is below a cutoff."""

    def __init__(self, problem: PipelineProblem, most_nodes: int) -> None:
        assert problem.micro_batch_order is MicroBatchOrder.FIXED
        self.problem = problem
        self.left = most_nodes
        self.span = problem.objective is Objective.STEADY_SPAN
        self.tokens = [
            Token(op, s, m)
            for s, stage in enumerate(problem.stages)
            for m in range(problem.micro_batches)
            for op in ("F", "B", "W", "O", "R")
            if (op in "FB")
            or (op == "W" and stage.backward_weight_ns[m])
            or (op in "OR" and stage.offload_bytes[m])
        ]
        self.length = {token: self._duration(token) for token in self.tokens}
        self.place = {token: problem.stages[token.stage].device for token in self.tokens}
        self.rivals = {
            token: [other for other in self.tokens if self._share(token, other)]
            for token in self.tokens
        }
        self.compute = [
            [token for token in self.tokens if token.op in "FBW" and self.place[token] == d]
            for d in range(len(problem.devices))
        ]
        self.needed = {token: self._needed(token) for token in self.tokens}
        self.rest = self._rests()
        self.required = sum(token.op in "FBW" for token in self.tokens)

    def _duration(self, token: Token) -> int:
        stage = self.problem.stages[token.stage]
        name = {
            "F": "forward_ns",
            "B": "backward_input_ns",
            "W": "backward_weight_ns",
            "O": "offload_ns",
            "R": "reload_ns",
        }[token.op]
        value: int = getattr(stage, name)[token.micro_batch]
        return value

    def find_below(self, cutoff: int) -> int | None:
        """An objective below the cutoff that some schedule has; None if there is none."""
        self.cutoff = cutoff
        return self._extend({}, 0, -1)

    def _extend(self, at: dict[Token, int], now: int, last: int) -> int | None:
        self.left -= 1
        if self.left < 0:
            raise TooLarge
        computed = sum(token.op in "FBW" for token in at)
        if computed == self.required:
            value = self._objective(at)
            return value if value < self.cutoff else None
        for number, token in enumerate(self.tokens):
            if token in at:
                continue
            for start in self._starts(token, at, now):
                # Of operations that start together, only the order by number is tried where
                # none of them allocates; allocations at one instant all count anyhow.
                if start == now and number < last and not self._must_follow(at, now):
                    continue
                at[token] = start
                hopeless = self._least(at, start) >= self.cutoff
                found = None if hopeless else self._extend(at, start, number)
                del at[token]
                if found is not None:
                    return found
        return None

    def _must_follow(self, at: dict[Token, int], now: int) -> bool:
        """Whether something that started just now had to come first (no lengths)."""
        return any(start == now and not self.length[other] for other, start in at.items())

    def _end(self, at: dict[Token, int], token: Token) -> int:
        return at[token] + self.length[token]

    def _needed(self, token: Token) -> list[tuple[Token, int]]:
        """What must have ended before the token, with the latency after it."""
        problem, (op, s, m) = self.problem, token
        needed: list[tuple[Token, int]] = []
        if op == "F" and s:
            needed.append((Token("F", s - 1, m), problem.transfers[s - 1].forward_ns[m]))
        if op == "B":
            needed.append((Token("F", s, m), 0))
            if s + 1 < len(problem.stages):
                needed.append((Token("B", s + 1, m), problem.transfers[s].backward_ns[m]))
        if op == "W":
            needed.append((Token("B", s, m), 0))
        if op == "O":
            needed.append((Token("F", s, m), 0))
        if op == "R":
            needed.append((Token("O", s, m), 0))
        if op in "FBW":
            earlier = [Token(op, s, k) for k in range(m)]
            needed += [(other, 0) for other in earlier if other in self.tokens]
        return needed

    def _starts(self, token: Token, at: dict[Token, int], now: int) -> Iterator[int]:
        problem, (op, s, m) = self.problem, token
        if op == "O" and Token("B", s, m) in at:
            return
        start = now
        needed = self.needed[token]
        if op == "B" and Token("O", s, m) in at:
            needed = [*needed, (Token("R", s, m), 0)]
        for other, latency in needed:
            if other not in at:
                return
            start = max(start, self._end(at, other) + latency)
        device = problem.stages[s].device
        for other in self.rivals[token]:
            if other in at:
                start = max(start, self._end(at, other))
        if not self._fits(token, start, at):
            later = sorted({end for other in at if (end := self._end(at, other)) > start})
            fitting = [t for t in later if self._fits(token, t, at)]
            if not fitting:
                return
            start = fitting[0]
        yield start
        is_first = op in "FBW" and not any(
            other.op in "FBW" and self.place[other] == device for other in at
        )
        if self.span and is_first:
            for delayed in range(start + 1, start + self.cutoff + 1):
                if self._fits(token, delayed, at):
                    yield delayed

    def _share(self, a: Token, b: Token) -> bool:
        """Whether two operations exclude each other."""
        if a == b or not self.length[a] or not self.length[b]:
            return False
        if a.op in "FBW" and b.op in "FBW":
            return self.problem.stages[a.stage].device == self.problem.stages[b.stage].device
        if a.op in "OR" and b.op in "OR":
            return self.problem.channel(a.stage, a.op) == self.problem.channel(b.stage, b.op)
        return False

    def _fits(self, token: Token, t: int, at: dict[Token, int]) -> bool:
        """Whether device and host memory hold at the instant the token starts."""
        problem = self.problem
        device = problem.devices[problem.stages[token.stage].device]
        timed = {**at, token: t}
        limit = device.activation_memory_bytes
        if token.op in "FBR" and limit is not None:
            used = 0
            for (op, s, m), start in timed.items():
                stage = problem.stages[s]
                if problem.devices[stage.device] is not device:
                    continue
                end = start + self.length[Token(op, s, m)]
                full = stage.activation_bytes[m]
                late = stage.weight_grad_bytes[m] if stage.backward_weight_ns[m] else 0
                work = stage.backward_workspace_bytes[m]
                used += full * (op == "F") + stage.offload_bytes[m] * (op == "R")
                used += (max(0, late - full) + work) * (op == "B")
                if end <= t:
                    used -= stage.offload_bytes[m] * (op == "O") + late * (op == "W")
                    used -= (max(0, full - late) + work) * (op == "B")
            if used > limit:
                return False
        if token.op == "O" and device.host is not None:
            limit = problem.hosts[device.host].memory_bytes
            used = 0
            for (op, s, m), start in timed.items():
                if problem.devices[problem.stages[s].device].host == device.host:
                    size = problem.stages[s].offload_bytes[m]
                    used += size * (op == "O")
                    used -= size * (op == "R" and start + self.length[Token(op, s, m)] <= t)
            if limit is not None and used > limit:
                return False
        return True

    def _objective(self, at: dict[Token, int]) -> int:
        firsts: dict[int, int] = {}
        lasts: dict[int, int] = {}
        for token, start in at.items():
            if token.op in "FBW":
                d = self.problem.stages[token.stage].device
                firsts[d] = min(firsts.get(d, start), start)
                lasts[d] = max(lasts.get(d, 0), self._end(at, token))
        ends = {d: end + self.problem.devices[d].epilogue_ns for d, end in lasts.items()}
        if self.span:
            return max(ends[d] - firsts[d] for d in ends)
        return max(ends.values()) - min(firsts.values())

    def _least(self, at: dict[Token, int], now: int) -> int:
        """A simple lower bound on the objective of everything that extends `at`."""
        problem = self.problem
        bound = 0
        if not self.span:
            bound = max(
                at.get(token, now) + self.rest[token] - min(at.values())
                for token in self.tokens
                if token in at or token.op in "FBW"
            )
        for d, device in enumerate(problem.devices):
            mine = self.compute[d]
            begun = [token for token in mine if token in at]
            left = sum(self.length[token] for token in mine if token not in at)
            if not begun and self.span:
                continue
            end = max((self._end(at, token) for token in begun), default=0)
            end = max(end, now) + left if left else end
            origin = min(at[token] for token in begun) if self.span else min(at.values())
            bound = max(bound, end + device.epilogue_ns - origin)
        return bound

    def _rests(self) -> dict[Token, int]:
        """Least time from the start of each operation to the end, by data dependencies alone."""
        problem = self.problem
        rest: dict[Token, int] = {}
        for m in range(problem.micro_batches):
            for s, stage in enumerate(problem.stages):
                epilogue = problem.devices[stage.device].epilogue_ns
                weight = Token("W", s, m)
                rest[weight] = problem.stages[s].backward_weight_ns[m] + epilogue
                after = rest[weight]
                if s:
                    latency = problem.transfers[s - 1].backward_ns[m]
                    after = max(after, latency + rest[Token("B", s - 1, m)])
                rest[Token("B", s, m)] = stage.backward_input_ns[m] + after
                rest[Token("O", s, m)] = rest[Token("R", s, m)] = rest[Token("B", s, m)]
            for s in reversed(range(len(problem.stages))):
                after = rest[Token("B", s, m)]
                if s + 1 < len(problem.stages):
                    latency = problem.transfers[s].forward_ns[m]
                    after = max(after, latency + rest[Token("F", s + 1, m)])
                rest[Token("F", s, m)] = problem.stages[s].forward_ns[m] + after
        return rest
