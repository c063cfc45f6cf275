"""Quick packings: the largest expert first, and exchanges that even the loads out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from planner.training.experts.layer import Layer, Packing

MOST_LOADED = 4
"""Devices that experts are taken from; evening out the others too hardly helps these."""
MOST_TOGETHER = 2
"""Experts that move at once in one direction."""
MOST_GROUPS = 2_000
"""Of experts on one device that are considered together."""


def pack_largest_first(layer: Layer) -> Packing:
    """Each expert, the most frequent first, on the least loaded device with room (Graham 1969;
    with equal counts it is the packing of DeepSeek's EPLB)."""
    experts: list[list[int]] = [[] for _ in layer.capacity]
    loads = [0] * layer.devices
    for expert, weight in enumerate(layer.weights):
        device = min(
            (d for d, capacity in enumerate(layer.capacity) if len(experts[d]) < capacity),
            key=loads.__getitem__,
        )
        experts[device].append(expert)
        loads[device] += weight
    return tuple(map(tuple, experts))


def improve(
    layer: Layer, packing: Packing, target_s: float, should_end: Callable[[], bool]
) -> Packing:
    """Exchange experts between the most loaded devices and others until no exchange helps, or the
    time has reached the target.

    One takes up to two experts of each device; of those that keep counts and capacities it is the
    one that brings the two loads closest together. It helps if the time is no longer; since the
    squares of the loads add up to less every time, that comes to an end.
    """
    return _Exchange(layer, packing).run(target_s, should_end)


class _Exchange:
    def __init__(self, layer: Layer, packing: Packing) -> None:
        self._layer = layer
        self._experts = [list(own) for own in packing]
        self._loads = layer.loads(packing)
        self._time_s = layer.time_s(self._loads)
        self._groups = [self._groups_of(device) for device in range(layer.devices)]
        self._changes = 0
        self._changed = [0] * layer.devices
        self._tried: dict[tuple[int, int], int] = {}

    def run(self, target_s: float, should_end: Callable[[], bool]) -> Packing:
        while self._time_s > target_s and not should_end():
            if not any(self._exchange(*pair) for pair in self._pairs()):
                break
        return tuple(tuple(sorted(own)) for own in self._experts)

    def _pairs(self) -> Iterator[tuple[int, int]]:
        """Pairs that changed since they were tried, those of the most different loads first."""
        order = sorted(range(self._layer.devices), key=lambda device: -self._loads[device])
        for over in order[:MOST_LOADED]:
            for under in reversed(order):
                if self._loads[over] - self._loads[under] <= 1:
                    break
                seen = self._tried.get((over, under), -1)
                if seen < max(self._changed[over], self._changed[under]):
                    yield over, under

    def _exchange(self, over: int, under: int) -> bool:
        """Do the best exchange between two devices; whether there is one."""
        self._tried[over, under] = self._changes
        gap = self._loads[over] - self._loads[under]
        best: tuple[int, tuple[int, ...], tuple[int, ...]] | None = None
        for leaving, arriving in self._sizes(over, under):
            found = _closest(self._groups[over][leaving], self._groups[under][arriving], gap)
            if found is not None and (best is None or found[0] < best[0]):
                best = found
        if best is None:
            return False
        _, leaving_experts, arriving_experts = best
        return self._apply(over, under, leaving_experts, arriving_experts)

    def _sizes(self, over: int, under: int) -> Iterator[tuple[int, int]]:
        """How many experts may leave and arrive."""
        capacity = self._layer.capacity
        for leaving in range(len(self._groups[over])):
            for arriving in range(len(self._groups[under])):
                more = arriving - leaving
                if self._layer.equal and more:
                    continue
                if (
                    len(self._experts[over]) + more <= capacity[over]
                    and len(self._experts[under]) - more <= capacity[under]
                ):
                    yield leaving, arriving

    def _apply(
        self, over: int, under: int, leaving: tuple[int, ...], arriving: tuple[int, ...]
    ) -> bool:
        weights = self._layer.weights
        moved = sum(weights[e] for e in leaving) - sum(weights[e] for e in arriving)
        loads = [*self._loads]
        loads[over] -= moved
        loads[under] += moved
        time_s = self._layer.time_s(loads)
        if time_s > self._time_s:
            return False
        self._loads, self._time_s = loads, time_s
        self._experts[over] = [e for e in self._experts[over] if e not in leaving] + [*arriving]
        self._experts[under] = [e for e in self._experts[under] if e not in arriving] + [*leaving]
        self._changes += 1
        for device in (over, under):
            self._changed[device] = self._changes
            self._groups[device] = self._groups_of(device)
        return True

    def _groups_of(self, device: int) -> list[list[tuple[int, tuple[int, ...]]]]:
        """By size, the groups of experts of a device that may move, by ascending weight."""
        own, weights = self._experts[device], self._layer.weights
        found = []
        for size in range(MOST_TOGETHER + 1):
            groups = [(sum(weights[e] for e in g), g) for g in combinations(own, size)]
            if len(groups) > MOST_GROUPS:
                break
            found.append(sorted(groups))
        return found


def _closest(
    leaving: list[tuple[int, tuple[int, ...]]],
    arriving: list[tuple[int, tuple[int, ...]]],
    gap: int,
) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
    """The pair of groups whose difference of weights is closest to half the gap, and above 0 and
    below the gap; how far twice the difference is from it."""
    best = None
    nearest = gap
    place = 0
    for weight, group in leaving:
        # Heavier groups leave, so heavier ones arrive.
        while place < len(arriving) and 2 * (weight - arriving[place][0]) > gap:
            place += 1
        for other in (place - 1, place):
            if 0 <= other < len(arriving):
                distance = abs(2 * (weight - arriving[other][0]) - gap)
                if distance < nearest:
                    nearest, best = distance, (distance, group, arriving[other][1])
    return best
