"""A list scheduler that follows the orders of another schedule as far as memory lets it.

The sequence of each device says what it prefers; what does not fit, or would leave no way to
finish (see `admission`), is put off until it does. Offloads that the other schedule had are kept
where they are possible, and others are added where memory runs short.
"""

from __future__ import annotations

from collections.abc import Collection

from planner.errors import OrderError
from planner.pipeline.dispatch.admission import needed_offloads
from planner.pipeline.dispatch.list_scheduling import ListScheduler
from planner.pipeline.dispatch.policy import DispatchPolicy, Selection, unlimited
from planner.pipeline.dispatch.state import FAR, DispatchState
from planner.pipeline.dispatch.transfer_choices import TransferChoices
from planner.pipeline.orders import Orders
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import OpKind, TimedOp
from planner.progress import StopCheck, never

Pair = tuple[int, int]
"""A stage and a micro-batch."""


def follow(
    problem: PipelineProblem,
    orders: Orders,
    should_stop: StopCheck = never,
    *,
    offload_more: bool,
) -> list[TimedOp]:
    """Timed operations of a valid schedule that prefers these compute orders.

    An idle device runs what comes first in its sequence of all that can run. With `offload_more`
    every activation that can be offloaded may be, where memory runs short. Operations of one kind
    on one stage run in micro-batch order, whatever the orders say.

    Raises `OrderError` only where one micro-batch at a time does not fit with all the offloads
    it needs in the hosts' memory at once, and `Interrupted` if told to stop.
    """
    needed = needed_offloads(problem)
    if needed is None:
        raise OrderError("one micro-batch at a time does not fit")
    return FollowingScheduler(problem, orders, needed, offload_more).run(should_stop)


class FollowingScheduler(ListScheduler):
    """One dispatch that prefers given sequences."""

    def __init__(
        self,
        problem: PipelineProblem,
        orders: Orders,
        needed: frozenset[Pair],
        offload_more: bool,
    ) -> None:
        kept = {(s, m) for tokens in orders.compute for op, s, m in tokens if op == "R"}
        free = unlimited(problem)
        policy = DispatchPolicy(
            in_flight=free,
            held=free,
            warm_up=(0,) * len(free),
            offload=_selection(problem, None if offload_more else kept),
        )
        super().__init__(problem, policy, needed)
        self.links = _FollowingTransfers(self.state, kept)
        self.places = _places(problem, orders)

    def _start_compute(self, d: int, now: int) -> None:
        """Start the first operation of the device's sequence that can start now."""
        state = self.state
        short = False
        chosen: tuple[OpKind, int] | None = None
        for op, s in self._next_of(d):
            if self._is_ready(op, s, now):
                if self._fits(op, s):
                    chosen = op, s
                    break
                short = True
        if short and not state.crowded[d]:
            # The device's links may now offload what they would have kept.
            state.dirty.add(d)
        state.crowded[d] = short
        if chosen is not None:
            self._start(*chosen, now)

    def _start(self, op: OpKind, s: int, now: int) -> None:
        if op == "F":
            self.state.start_forward(s, now)
        elif op == "B":
            self.state.start_backward(s, now)
        else:
            self.state.start_weight(s, now)

    def _next_of(self, d: int) -> list[tuple[OpKind, int]]:
        """The next operation of each kind and stage of a device, in the order of its sequence."""
        state = self.state
        state.next_weight(d)  # Moves over micro-batches without W.
        heads: list[tuple[int, OpKind, int]] = []
        for s in state.memory[d].stages:
            following: tuple[tuple[OpKind, int], ...] = (
                ("F", state.next_f[s]),
                ("B", state.next_b[s]),
                ("W", state.next_w[s]),
            )
            heads += [(self.places[op][s][m], op, s) for op, m in following if m < state.count]
        return [(op, s) for _, op, s in sorted(heads)]

    def _is_ready(self, op: OpKind, s: int, now: int) -> bool:
        state = self.state
        if op == "F":
            return state.f_ready_ns[s][state.next_f[s]] <= now
        if op == "W":
            return state.next_w[s] < state.ended_b[s]
        m = state.next_b[s]
        return max(state.b_ready_ns[s][m], state.reloaded_ns[s].get(m, 0)) <= now

    def _fits(self, op: OpKind, s: int) -> bool:
        state = self.state
        if op == "F":
            return state.forward_is_safe(s)
        if op == "W":
            return True
        return state.memory[state.device_of[s]].fits(state.allocation[s][state.next_b[s]])


class _FollowingTransfers(TransferChoices):
    """Offloads what the other schedule offloaded, and more only where memory runs short."""

    def __init__(self, state: DispatchState, kept: Collection[Pair]) -> None:
        super().__init__(state)
        self.kept = kept

    def _wants_offload(self, s: int, m: int, now: int) -> bool:
        state = self.state
        if (s, m) in state.needed or (s, m) in self.kept:
            return True
        return state.crowded[state.device_of[s]] and m > state.next_b[s]


def _selection(problem: PipelineProblem, kept: Collection[Pair] | None) -> Selection:
    """What may be offloaded: these pairs, or (None) all that can."""
    return tuple(
        tuple(size > 0 and (kept is None or (s, m) in kept) for m, size in enumerate(sizes))
        for s, sizes in enumerate(stage.offload_bytes for stage in problem.stages)
    )


def _places(problem: PipelineProblem, orders: Orders) -> dict[OpKind, list[list[int]]]:
    """Where in its device's sequence the k-th F, B and W of each stage is."""
    stages = range(len(problem.stages))
    places: dict[OpKind, list[list[int]]] = {op: [[] for _ in stages] for op in ("F", "B", "W")}
    for tokens in orders.compute:
        for place, (op, s, _) in enumerate(tokens):
            if op != "R":
                places[op][s].append(place)
    for s in stages:
        given = iter(places["W"][s])
        has_weight = map(problem.stages[s].has_weight_op, range(problem.micro_batches))
        places["W"][s] = [next(given) if own else FAR for own in has_weight]
    return places
