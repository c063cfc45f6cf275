"""One pass through an iteration that follows given orders, event by event."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from heapq import heappop, heappush

from planner.errors import OrderError
from planner.pipeline.orders import Channel, Orders
from planner.pipeline.problem import MicroBatchOrder, PipelineProblem
from planner.pipeline.schedule import OpKind, TimedOp, Token
from planner.sizes import gib


class Simulation:
    """One pass through the iteration. At each instant what ends is applied before what starts.

    `kernel.event_simulation` does the same for long iterations: whoever changes one changes both.
    """

    def __init__(self, problem: PipelineProblem, orders: Orders, enforce_memory: bool) -> None:
        self.problem = problem
        self.sequences = orders.compute
        self.fixed_order = problem.micro_batch_order is MicroBatchOrder.FIXED
        stages = problem.stages
        self.durations: dict[OpKind, list[tuple[int, ...]]] = {
            "F": [s.forward_ns for s in stages],
            "B": [s.backward_input_ns for s in stages],
            "W": [s.backward_weight_ns for s in stages],
            "O": [s.offload_ns for s in stages],
            "R": [s.reload_ns for s in stages],
        }
        devices = problem.devices
        self.limit = [d.activation_memory_bytes if enforce_memory else None for d in devices]
        self.host_limit = [h.memory_bytes if enforce_memory else None for h in problem.hosts]
        self.used = [0] * len(devices)
        self.host_used = [0] * len(problem.hosts)
        self.next_token = [0] * len(devices)
        self.compute_free_ns = [0] * len(devices)
        self.offloaded = {(s, m) for tokens in orders.compute for op, s, m in tokens if op == "R"}
        self.arrival_ns: dict[Token, int] = {
            Token("F", 0, m): 0 for m in range(problem.micro_batches)
        }
        self.ended: set[Token] = set()
        self.ops: list[TimedOp] = []
        self.events: list[tuple[int, int, Token | int]] = []  # a token ends, or a device wakes
        self.sequence_number = 0
        self.waiting: dict[Channel, list[tuple[int, int, Token]]] = defaultdict(list)
        self.channel_free_ns: dict[Channel, int] = defaultdict(int)
        self.channel_order = self._positions(orders.channels)
        self.channel_next: dict[Channel, int] = defaultdict(int)
        self.host_order = self._positions(orders.hosts)
        self.host_next = [0] * len(problem.hosts)
        self.requested: set[Token] = set()

    @staticmethod
    def _positions(
        orders: Mapping[Channel, tuple[Token, ...]] | Mapping[int, tuple[Token, ...]] | None,
    ) -> dict[Token, int] | None:
        if orders is None:
            return None
        return {token: k for tokens in orders.values() for k, token in enumerate(tokens)}

    def run(self) -> list[TimedOp]:
        """All operations with their times. Raises `OrderError` where nothing more can start."""
        now = 0
        dirty = set(range(len(self.sequences)))
        while True:
            self._start_all(now, dirty)
            if not self.events:
                break
            now = self.events[0][0]
            dirty = set()
            while self.events and self.events[0][0] == now:
                _, _, what = heappop(self.events)
                if isinstance(what, int):
                    dirty.add(what)
                else:
                    self._end(what, now, dirty)
        self._check_finished()
        return self.ops

    def _push(self, when: int, what: Token | int) -> None:
        self.sequence_number += 1
        heappush(self.events, (when, self.sequence_number, what))

    def _end(self, token: Token, now: int, dirty: set[int]) -> None:
        op, s, m = token
        self.ended.add(token)
        stage = self.problem.stages[s]
        dirty.add(stage.device)
        if op == "B":
            self.used[stage.device] -= stage.backward_free_bytes(m)
        elif op == "W":
            self.used[stage.device] -= stage.late_bytes(m)
        elif op == "O":
            self.used[stage.device] -= stage.offload_bytes[m]
        elif op == "R":
            host = self.problem.devices[stage.device].host
            if host is not None:
                self.host_used[host] -= stage.offload_bytes[m]
        elif (s, m) in self.offloaded:
            self._request(Token("O", s, m), now)

    def _request(self, token: Token, now: int) -> None:
        self.requested.add(token)
        channel = self.problem.channel(token.stage, token.op)
        position = now if self.channel_order is None else self.channel_order[token]
        self.sequence_number += 1
        heappush(self.waiting[channel], (position, self.sequence_number, token))

    def _start_all(self, now: int, dirty: set[int]) -> None:
        """Start what can start now; a started transfer lets its device go on, and the reverse."""
        while True:
            for device in sorted(dirty):
                self._start_device(device, now)
            dirty = set()
            for channel in [c for c, queue in self.waiting.items() if queue]:
                self._start_channel(channel, now, dirty)
            if not dirty:
                return

    def _start_device(self, device: int, now: int) -> None:
        tokens = self.sequences[device]
        while self.next_token[device] < len(tokens):
            token = tokens[self.next_token[device]]
            if not self._may_start(token, device, now):
                return
            if token.op == "R":
                if token not in self.requested:
                    self._request(token, now)
                return
            self._start(token, now)
            self.next_token[device] += 1

    def _may_start(self, token: Token, device: int, now: int) -> bool:
        op, s, m = token
        if op == "R":
            ready = Token("O", s, m) in self.ended
        elif op == "W":
            ready = Token("B", s, m) in self.ended
        else:
            arrival = self.arrival_ns.get(token)
            ready = arrival is not None and arrival <= now
            if op == "B" and ready:
                before: OpKind = "R" if (s, m) in self.offloaded else "F"
                ready = Token(before, s, m) in self.ended
        if not ready:
            return False
        if op != "R" and not self._has_turn(token, device, now):
            return False
        limit = self.limit[device]
        return limit is None or self.used[device] + self._allocation(token) <= limit

    def _has_turn(self, token: Token, device: int, now: int) -> bool:
        """Whether the device is free. An operation of no length occupies nothing and fits into
        another one, but under fixed order not before the micro-batch ahead of it."""
        op, s, m = token
        if self.durations[op][s][m]:
            return self.compute_free_ns[device] <= now
        return not self.fixed_order or m == 0 or Token(op, s, m - 1) in self.ended

    def _allocation(self, token: Token) -> int:
        op, s, m = token
        stage = self.problem.stages[s]
        if op == "F":
            return stage.activation_bytes[m]
        if op == "R":
            return stage.offload_bytes[m]
        return stage.backward_allocation_bytes(m) if op == "B" else 0

    def _start(self, token: Token, now: int) -> None:
        op, s, m = token
        stage = self.problem.stages[s]
        device = stage.device
        end = now + self.durations[op][s][m]
        self.used[device] += self._allocation(token)
        self.ops.append(TimedOp(op, s, m, now, end))
        self._push(end, token)
        if op in "OR":
            return
        if end > now:
            self.compute_free_ns[device] = end
        if op == "F":
            if s + 1 < len(self.problem.stages):
                hop = self.problem.transfers[s].forward_ns[m]
                self._arrive(Token("F", s + 1, m), end + hop)
            else:
                self.arrival_ns[Token("B", s, m)] = end
        elif op == "B" and s:
            self._arrive(Token("B", s - 1, m), end + self.problem.transfers[s - 1].backward_ns[m])

    def _arrive(self, token: Token, when: int) -> None:
        self.arrival_ns[token] = when
        self._push(when, self.problem.stages[token.stage].device)

    def _start_channel(self, channel: Channel, now: int, dirty: set[int]) -> None:
        """Serve the channel's queue: in the given order, or whoever came first and has room."""
        queue = self.waiting[channel]
        blocked = []
        while queue:
            position, number, token = queue[0]
            if self.channel_order is not None and position != self.channel_next[channel]:
                break
            duration = self.durations[token.op][token.stage][token.micro_batch]
            if duration and self.channel_free_ns[channel] > now:
                break
            heappop(queue)
            if not self._host_has_room(token):
                blocked.append((position, number, token))
                if self.channel_order is not None:
                    break
                continue
            self._start(token, now)
            self.channel_next[channel] += 1
            if duration:
                self.channel_free_ns[channel] = now + duration
            self._account_transfer(token, dirty)
        for entry in blocked:
            heappush(queue, entry)

    def _host_of(self, token: Token) -> int | None:
        return self.problem.devices[self.problem.stages[token.stage].device].host

    def _host_has_room(self, token: Token) -> bool:
        host = self._host_of(token)
        if token.op == "R" or host is None:
            return True
        if self.host_order is not None and self.host_order[token] != self.host_next[host]:
            return False
        limit = self.host_limit[host]
        bytes_needed = self.problem.stages[token.stage].offload_bytes[token.micro_batch]
        return limit is None or self.host_used[host] + bytes_needed <= limit

    def _account_transfer(self, token: Token, dirty: set[int]) -> None:
        stage = self.problem.stages[token.stage]
        dirty.add(stage.device)
        if token.op == "R":
            self.next_token[stage.device] += 1
            return
        host = self._host_of(token)
        if host is not None:
            self.host_next[host] += 1
            self.host_used[host] += stage.offload_bytes[token.micro_batch]

    def _check_finished(self) -> None:
        for device, tokens in enumerate(self.sequences):
            if self.next_token[device] == len(tokens):
                continue
            token = tokens[self.next_token[device]]
            limit, needed = self.limit[device], self._allocation(token)
            why = "what it waits for never ends"
            if limit is not None and self.used[device] + needed > limit:
                why = f"it needs {gib(needed)} beside {gib(self.used[device])} of {gib(limit)}"
            raise OrderError(
                f"device {device} cannot start {token.op} of stage {token.stage}, "
                f"micro-batch {token.micro_batch}: {why}"
            )
