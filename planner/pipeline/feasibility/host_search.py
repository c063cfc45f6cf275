"""Exact search for offloads that let one micro-batch through when a host is short of room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from planner.errors import Undecided
from planner.pipeline.feasibility.memory_chunks import Chunk, Moves
from planner.pipeline.schedule import OpKind, Token

IN, OUT, BACK = range(3)
# The search is exponential in the chunks that share a host; so much work takes a few seconds.
MOST_WORK = 300_000
Parts = tuple[int, ...]
State = tuple[int, Parts]


class SearchBudget:
    """Work that the searches of one question may do together, in states times chunks."""

    def __init__(self, work: int = MOST_WORK) -> None:
        self._left = work

    def spend(self, work: int) -> None:
        """Raises `Undecided` once nothing is left."""
        self._left -= work
        if self._left < 0:
            raise Undecided("the search for offloads that fit was given up")


@dataclass(frozen=True)
class Path:
    """The operations that led to a state, newest first."""

    earlier: Path | None
    step: tuple[OpKind, int]


class HostSearch:
    """Depth-first search over when each stage of a host's devices is out.

    A state is how many of the F and B have been done and, per stage, whether its part is in (not
    yet out), out, or back. The next F or B is done as soon as it fits: an offload can wait until
    its own device needs the room, and a reload until its own B or until the host needs the room,
    without using more of anything at any time. Where it doesn't fit, all offloads and reloads
    that can help are tried. States from which a device cannot finish, or the host cannot hold
    what must be out at some B, are dropped.
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        micro_batch: int,
        limits: Mapping[int, int | None],
        host_limit: int,
        budget: SearchBudget,
    ) -> None:
        self.budget = budget
        self.chunks = sorted(chunks, key=lambda chunk: chunk.stage)
        self.micro_batch = micro_batch
        self.limits = limits
        self.host_limit = host_limit
        count = len(self.chunks)
        self.events: list[tuple[OpKind, int]] = [("F", i) for i in range(count)]
        self.events += [("B", i) for i in reversed(range(count))]
        self.own: dict[int, list[int]] = {}
        for i, chunk in enumerate(self.chunks):
            self.own.setdefault(chunk.device, []).append(i)
        self._can_finish = cache(self._compute_can_finish)
        self._least_out = cache(self._compute_least_out)

    def run(self) -> Moves | None:
        """The moves of the first way that is found; None if there is none.

        Raises `Undecided` where the budget runs out.
        """
        start: State = (0, (IN,) * len(self.chunks))
        seen = {start}
        stack: list[tuple[State, Path | None]] = [(start, None)]
        if self._is_hopeless(start):
            return None
        while stack:
            self.budget.spend(len(self.chunks))
            state, path = stack.pop()
            if state[0] == len(self.events):
                return self._moves(path)
            for following, step in self._next(state):
                if following not in seen:
                    seen.add(following)
                    if not self._is_hopeless(following):
                        stack.append((following, Path(path, step)))
        return None

    def _next(self, state: State) -> list[tuple[State, tuple[OpKind, int]]]:
        done, parts = state
        op, i = self.events[done]
        chunk = self.chunks[i]
        used = self._used(state, chunk.device)
        if op == "F":
            used += chunk.activation
        else:
            used += chunk.backward_allocation + (chunk.offload if parts[i] == OUT else 0)
        if self._fits(chunk.device, used):
            return [((done + 1, _with(parts, i, BACK) if op == "B" else parts), (op, i))]
        return [
            ((done, _with(parts, k, OUT if move == "O" else BACK)), (move, k))
            for move, k in self._helpful_moves(state, chunk.device)
        ]

    def _helpful_moves(self, state: State, device: int) -> list[tuple[OpKind, int]]:
        """Offloads on the device that is short, reloads that make room for one on the host, and
        offloads elsewhere that make room for such a reload. What takes least of a host is last,
        to be tried first."""
        done, parts = state
        room = self.host_limit - sum(self.chunks[k].offload for k in self._all(parts, OUT))
        offloadable = [
            k for k in self._all(parts, IN) if self.chunks[k].offload and self._resident(done, k)
        ]
        own = [k for k in offloadable if self.chunks[k].device == device]
        moves: list[tuple[OpKind, int]] = []
        if any(self.chunks[k].offload > room for k in own):
            blocked: set[int] = set()
            for k in self._all(parts, OUT):
                chunk = self.chunks[k]
                if self._fits(chunk.device, self._used(state, chunk.device) + chunk.offload):
                    moves.append(("R", k))
                else:
                    blocked.add(chunk.device)
            own += [
                k
                for k in offloadable
                if self.chunks[k].device != device and self.chunks[k].device in blocked
            ]
        own.sort(key=lambda k: -self.chunks[k].offload)
        return moves + [("O", k) for k in own if self.chunks[k].offload <= room]

    @staticmethod
    def _all(parts: Parts, part: int) -> list[int]:
        return [k for k, own in enumerate(parts) if own == part]

    def _resident(self, done: int, i: int) -> bool:
        """Whether the stage has had its F, and not yet its B."""
        count = len(self.chunks)
        return i < done if done <= count else i < 2 * count - done

    def _used(self, state: State, device: int) -> int:
        done, parts = state
        return sum(
            self.chunks[i].activation - (self.chunks[i].offload if parts[i] == OUT else 0)
            for i in self.own[device]
            if self._resident(done, i)
        )

    def _fits(self, device: int, used: int) -> bool:
        limit = self.limits[device]
        return limit is None or used <= limit

    def _is_hopeless(self, state: State) -> bool:
        done, parts = state
        count = len(self.chunks)
        left = min(count, 2 * count - done)
        columns = []
        for device, own in self.own.items():
            on_device = tuple(parts[i] for i in own)
            if not self._can_finish(device, on_device, sum(i < left for i in own)):
                return True
            columns.append(self._least_out(device, on_device))
        must_hold = [sum(sizes) for sizes in zip(*columns, strict=True)]
        return any(size > self.host_limit for size in must_hold[:left])

    def _compute_can_finish(self, device: int, parts: Parts, left: int) -> bool:
        """Whether the device's first `left` stages can have their B if all that can is out."""
        earlier = 0
        for i, part in list(zip(self.own[device], parts, strict=True))[:left]:
            chunk = self.chunks[i]
            if not self._fits(device, earlier + chunk.activation + chunk.backward_allocation):
                return False
            earlier += chunk.activation - (chunk.offload if part != BACK else 0)
        return True

    def _compute_least_out(self, device: int, parts: Parts) -> list[int]:
        """The least of the device's bytes that must be out at the B of each stage of the group."""
        limit = self.limits[device]
        if limit is None:
            return [0] * len(self.chunks)
        sums = {0}
        resident = 0
        least = []
        for i, chunk in enumerate(self.chunks):
            missing = resident - limit
            if chunk.device == device:
                missing += chunk.activation + chunk.backward_allocation
            enough = (size for size in sums if size >= missing)
            least.append(min(enough, default=self.host_limit + 1))
            if chunk.device == device:
                resident += chunk.activation
                if parts[self.own[device].index(i)] != BACK:
                    sums |= {size + chunk.offload for size in sums}
        return least

    def _moves(self, path: Path | None) -> Moves:
        steps = []
        while path is not None:
            steps.append(path.step)
            path = path.earlier
        moves: Moves = {}
        pending: list[Token] = []
        out: set[int] = set()
        for op, i in reversed(steps):
            token = Token(op, self.chunks[i].stage, self.micro_batch)
            if op == "O":
                out.add(i)
                pending.append(token)
            elif op == "R":
                out.discard(i)
                pending.append(token)
            else:
                if op == "B" and i in out:
                    pending.append(Token("R", token.stage, self.micro_batch))
                if pending:
                    moves[token] = tuple(pending)
                pending = []
        return moves


def _with(parts: Parts, i: int, part: int) -> Parts:
    return (*parts[:i], part, *parts[i + 1 :])
