"""The memory-time bound: bytes x lifetime must fit under the limit x the time there is.

On a device with limit C the bytes in use, integrated over time, are at most C times the length
of the interval in which the device holds anything. That interval lies in a window (see
`bounds.window`) of length T after the device's head and before its tail or epilogue. Each
activation is held at least for its round trip, F start to B end along the micro-batch's path
through the later stages; workspace and excess for B; what is late for W. So

    sum over devices of C (T - head - tail)  >=  bytes-time held  -  what offloading saves at best.

An offloaded part is still held during F and O, and during R and B, so offloading it saves at most
its size x (round trip - F - O - R - B), and occupies its link for O and R. What is saved within
T is at most the fractional knapsack of savings against link time (Dantzig, 1957). The inequality
is taken for each device alone and summed over the devices that share a link, the two, three, ...
shortest of memory; the least T that satisfies it is the bound.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import gcd

from planner.pipeline.bounds.window import Window
from planner.pipeline.problem import Stage


def memory_time_bound_ns(window: Window) -> int:
    """The best memory-time bound on the window's length; 0 where no device has a limit."""
    accounts = {
        d: account
        for d in window.stages_of_device
        if (account := _Account.of_device(window, d)) is not None
    }

    def bound_ns(group: list[int]) -> int:
        members = [accounts[d] for d in group]
        savings = _savings(window, group)
        best = _least_length(members, savings, with_weights=False)
        if all(d in window.counted for d in group):
            best = max(best, _least_length(members, savings, with_weights=True))
        return best

    alone = {d: bound_ns([d]) for d in accounts}
    best = max(alone.values(), default=0)
    by_link: dict[str, list[int]] = {}
    for d in sorted(alone, key=lambda d: (-alone[d], d)):
        link = window.problem.devices[d].host_link
        if link is not None:
            # Together with those on its link that are shorter of memory.
            sharing = by_link.setdefault(link, [])
            sharing.append(d)
            if len(sharing) > 1:
                best = max(best, bound_ns(sharing))
    return best


@dataclass(frozen=True)
class _Account:
    """What one device holds at least (byte ns), under its limit and between its head and tail."""

    limit_bytes: int
    head_ns: int
    tail_ns: int
    epilogue_ns: int
    held: int
    held_with_weights: int

    @classmethod
    def of_device(cls, window: Window, device: int) -> _Account | None:
        """None without a limit, or if nothing is ever held, or nothing can be."""
        problem = window.problem
        limit = problem.devices[device].activation_memory_bytes
        stages = window.stages_of_device[device]
        if limit is None:
            return None
        unit = gcd(
            *(
                piece
                for s in stages
                for m in range(problem.micro_batches)
                for piece in _pieces(problem.stages[s], m)
            )
        )
        if unit == 0 or limit < unit:
            return None
        held = late = 0
        for s in stages:
            stage = problem.stages[s]
            for m in range(problem.micro_batches):
                held += stage.activation_bytes[m] * window.round_trip_ns(s, m)
                held += stage.backward_allocation_bytes(m) * stage.backward_input_ns[m]
                late += stage.late_bytes(m) * stage.backward_weight_ns[m]
        return cls(
            # What is in use at any instant is a sum of pieces, hence a multiple of their divisor.
            limit_bytes=limit // unit * unit,
            head_ns=window.head_ns(stages[0]),
            tail_ns=window.tail_ns(stages[0]),
            epilogue_ns=problem.devices[device].epilogue_ns,
            held=held,
            held_with_weights=held + late,
        )


def _pieces(stage: Stage, m: int) -> tuple[int, ...]:
    """The parts in which a stage's memory comes and goes."""
    return (
        stage.activation_bytes[m],
        stage.late_bytes(m),
        stage.backward_workspace_bytes[m],
        stage.offload_bytes[m],
    )


class _Savings:
    """The fractional knapsack of what offloads on one link save against the time they take it."""

    def __init__(self, offers: list[tuple[int, int]], margin_ns: int) -> None:
        """`offers`: (byte ns saved, link ns taken); `margin_ns`: when the link can't be in use."""
        kinds = sorted(set(offers), key=lambda offer: -Fraction(offer[0], max(offer[1], 1)))
        rank = {offer: position for position, offer in enumerate(kinds)}
        offers = sorted(offers, key=rank.__getitem__)
        self.free = sum(saved for saved, taken in offers if not taken)
        self.offers = [offer for offer in offers if offer[1]]
        self.saved = list(accumulate((saved for saved, _ in self.offers), initial=0))
        self.taken = list(accumulate((taken for _, taken in self.offers), initial=0))
        self.margin_ns = margin_ns

    def within(self, length_ns: int) -> int:
        """The most that is saved in a window of this length, rounded up."""
        budget = length_ns - self.margin_ns
        if budget <= 0:
            return self.free
        full = bisect_right(self.taken, budget) - 1
        saved = self.free + self.saved[full]
        if full < len(self.offers):
            worth, taken = self.offers[full]
            saved += -(-worth * (budget - self.taken[full]) // taken)
        return saved


def _savings(window: Window, devices: list[int]) -> list[_Savings]:
    """One knapsack per channel of the devices' link; each alone limits what can be saved."""
    problem = window.problem
    offers: dict[str, list[tuple[int, int]]] = {}
    before: dict[str, list[int]] = {}
    after: dict[str, list[int]] = {}
    for d in devices:
        first = window.stages_of_device[d][0]
        head, tail = window.head_ns(first), window.tail_ns(first)
        for s in window.stages_of_device[d]:
            stage = problem.stages[s]
            for m, size in enumerate(stage.offload_bytes):
                forward, backward = stage.forward_ns[m], stage.backward_input_ns[m]
                offload, reload = stage.offload_ns[m], stage.reload_ns[m]
                away = window.round_trip_ns(s, m) - forward - offload - reload - backward
                if not size or away <= 0:
                    continue
                uses = (
                    [("both", offload + reload, 0, 0)]
                    if problem.is_half_duplex(s)
                    else [("O", offload, 0, reload), ("R", reload, offload, 0)]
                )
                for channel, taken, sooner, later in uses:
                    offers.setdefault(channel, []).append((size * away, taken))
                    before.setdefault(channel, []).append(head + forward + sooner)
                    after.setdefault(channel, []).append(tail + backward + later)
    return [
        _Savings(offers[channel], min(before[channel]) + min(after[channel])) for channel in offers
    ]


def _least_length(members: list[_Account], savings: list[_Savings], *, with_weights: bool) -> int:
    """The least window length in which the members' bytes-time fits, after the best savings."""
    held = sum(a.held_with_weights if with_weights else a.held for a in members)
    limit = sum(a.limit_bytes for a in members)
    outside = sum(
        a.limit_bytes * (a.head_ns + (a.epilogue_ns if with_weights else a.tail_ns))
        for a in members
    )

    def fits(length_ns: int) -> bool:
        saved = min((s.within(length_ns) for s in savings), default=0)
        return limit * length_ns - outside + saved >= held

    low, high = 0, -(-(held + outside) // limit)
    while low < high:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle + 1
    return low
