"""Which allocations leave a way to finish: the banker's rule per device and per host.

Micro-batches finish in order, oldest first. A device is safe when, for each micro-batch on it,
the most it will still hold fits beside what younger ones hold: older ones will be gone by then,
pending W and offloads into a host without limit can always run, and a started offload ends by
itself. While every device and host is
safe, the oldest micro-batch can always go on, so nothing that is dispatched can deadlock.
"""

from __future__ import annotations

from collections import defaultdict
from enum import IntEnum
from operator import mul

from planner.pipeline.dispatch.policy import Selection
from planner.pipeline.problem import PipelineProblem


class Phase(IntEnum):
    """Where one stage's activation of one micro-batch is."""

    ABSENT = 0
    RESIDENT = 1
    OFFLOADED = 2  # its O has started
    RELOADED = 3  # its R has started
    SPENT = 4  # its B has started


def needed_offloads(problem: PipelineProblem) -> frozenset[tuple[int, int]] | None:
    """(stage, micro-batch) pairs to offload so that one micro-batch at a time fits; few of them.

    None if the rule finds none, which can happen on feasible problems only where a host has too
    little memory to hold all of them at once.
    """
    needed: set[tuple[int, int]] = set()
    for d, device in enumerate(problem.devices):
        limit = device.activation_memory_bytes
        if limit is None:
            continue
        stages = problem.stages_of_device[d]
        # Micro-batches that hold the same need the same.
        known: dict[tuple[tuple[int, int, int], ...], list[int] | None] = {}
        for m in range(problem.micro_batches):
            sizes = tuple(
                (
                    problem.stages[s].activation_bytes[m],
                    problem.stages[s].backward_allocation_bytes(m),
                    problem.stages[s].offload_bytes[m],
                )
                for s in stages
            )
            if sizes not in known:
                known[sizes] = _fewest_parts_out(sizes, limit)
            chosen = known[sizes]
            if chosen is None:
                return None
            needed.update((stages[c], m) for c in chosen)
    held: dict[tuple[int, int], int] = defaultdict(int)
    for s, m in needed:
        h = problem.devices[problem.stages[s].device].host
        if h is not None:
            held[h, m] += problem.stages[s].offload_bytes[m]
    for (h, _), size in held.items():
        host_limit = problem.hosts[h].memory_bytes
        if host_limit is not None and size > host_limit:
            return None
    return frozenset(needed)


def _fewest_parts_out(sizes: tuple[tuple[int, int, int], ...], limit: int) -> list[int] | None:
    """Which chunks to offload so that one micro-batch alone fits; None if none do.

    `sizes` are activation, what B allocates and the part that can be offloaded, per chunk.
    """
    chosen: list[int] = []
    if _peak_passing(sizes, chosen) <= limit:
        return chosen
    for c, (_, _, offload) in enumerate(sizes):
        if offload:
            chosen.append(c)
        if _peak_passing(sizes, chosen) <= limit:
            break
    else:
        return None
    for c in list(chosen):
        rest = [other for other in chosen if other != c]
        if _peak_passing(sizes, rest) <= limit:
            chosen = rest
    return chosen


def _peak_passing(sizes: tuple[tuple[int, int, int], ...], out: list[int]) -> int:
    """The most a device holds while one micro-batch alone passes through it."""
    now = peak = 0
    for c, (activation, _, offload) in enumerate(sizes):
        now += activation
        peak = max(peak, now)
        now -= offload if c in out else 0
    for c, (activation, allocation, offload) in reversed(list(enumerate(sizes))):
        now += offload if c in out else 0
        peak = max(peak, now + allocation)
        now -= activation
    return peak


class DeviceMemory:
    """Bytes in use on one device now, and whether an allocation keeps it safe."""

    def __init__(
        self,
        problem: PipelineProblem,
        device: int,
        needed: frozenset[tuple[int, int]],
        selected: Selection | None = None,
    ) -> None:
        self.stages = problem.stages_of_device[device]
        self.limit = problem.devices[device].activation_memory_bytes
        self.used = 0
        count = problem.micro_batches
        chunks = [problem.stages[s] for s in self.stages]
        self.activation = [c.activation_bytes for c in chunks]
        self.offload = [c.offload_bytes for c in chunks]
        self.extra = [[c.backward_allocation_bytes(m) for m in range(count)] for c in chunks]
        host = problem.devices[device].host
        if selected is None or (host is not None and problem.hosts[host].memory_bytes is not None):
            self.assured = [[False] * count for _ in chunks]
        else:
            self.assured = [
                [x > 0 for x in map(mul, self.offload[c], selected[s])]
                for c, s in enumerate(self.stages)
            ]
        self.needed = [
            [(s, m) in needed or self.assured[c][m] for m in range(count)]
            for c, s in enumerate(self.stages)
        ]
        self.chunk_of = {s: c for c, s in enumerate(self.stages)}
        self.phase = [[Phase.ABSENT] * len(chunks) for _ in range(count)]
        self.oldest, self.newest = 0, -1
        self.held = [0] * count
        self.peak = [0] * count

    def _outlook(self, m: int, phases: list[Phase]) -> tuple[int, int]:
        """Bytes the micro-batch holds once what has started ends, and the most it will hold."""
        held = 0
        for c, phase in enumerate(phases):
            if phase in (Phase.RESIDENT, Phase.RELOADED):
                held += self.activation[c][m]
            elif phase is Phase.OFFLOADED:
                held += self.activation[c][m] - self.offload[c][m]
        now = peak = held
        away = [phase is Phase.OFFLOADED for phase in phases]
        for c, phase in enumerate(phases):
            if phase is Phase.RESIDENT and self.needed[c][m]:
                now -= self.offload[c][m]
                away[c] = True
                if self.assured[c][m]:
                    held -= self.offload[c][m]
        for c, phase in enumerate(phases):
            if phase is Phase.ABSENT:
                now += self.activation[c][m]
                peak = max(peak, now)
                if self.needed[c][m]:
                    now -= self.offload[c][m]
                    away[c] = True
        for c in range(len(phases) - 1, -1, -1):
            if phases[c] is Phase.SPENT:
                continue
            if away[c]:
                now += self.offload[c][m]
            peak = max(peak, now + self.extra[c][m])
            now -= self.activation[c][m]
        return held, peak

    def fits(self, allocation: int) -> bool:
        """Whether so many bytes are free right now."""
        return self.limit is None or self.used + allocation <= self.limit

    def is_safe_after(self, stage: int, m: int, phase: Phase) -> bool:
        """Whether the device stays safe when this activation enters the phase."""
        if self.limit is None:
            return True
        phases = self.phase[m].copy()
        phases[self.chunk_of[stage]] = phase
        held, peak = self._outlook(m, phases)
        younger = sum(self.held[m + 1 : self.newest + 1])
        if peak + younger > self.limit:
            return False
        younger += held
        for k in range(m - 1, self.oldest - 1, -1):
            if self.peak[k] + younger > self.limit:
                return False
            younger += self.held[k]
        return True

    def enter(self, stage: int, m: int, phase: Phase) -> None:
        """Record that this activation has entered the phase."""
        phases = self.phase[m]
        phases[self.chunk_of[stage]] = phase
        self.newest = max(self.newest, m)
        self.held[m], self.peak[m] = self._outlook(m, phases)
        while self.oldest <= self.newest and all(p is Phase.SPENT for p in self.phase[self.oldest]):
            self.oldest += 1


class HostMemory:
    """Bytes that offloaded activations take on one host, and whether one more keeps it safe."""

    def __init__(
        self, problem: PipelineProblem, host: int, needed: frozenset[tuple[int, int]]
    ) -> None:
        self.limit = problem.hosts[host].memory_bytes
        self.used = 0
        self.held = [0] * problem.micro_batches
        self.needed = needed
        self.outstanding = [0] * problem.micro_batches
        for s, m in needed:
            if problem.devices[problem.stages[s].device].host == host:
                self.outstanding[m] += problem.stages[s].offload_bytes[m]
        self.active = {m for m, size in enumerate(self.outstanding) if size}

    def admits(self, stage: int, m: int, size: int) -> bool:
        """Whether the offload fits now and leaves room for those that older ones will need."""
        if self.limit is None:
            return True
        if self.used + size > self.limit:
            return False
        younger = 0
        for k in sorted(self.active | {m}, reverse=True):
            own = self.held[k] + (size if k == m else 0)
            due = self.outstanding[k] - (size if k == m and (stage, m) in self.needed else 0)
            if own + due + younger > self.limit:
                return False
            younger += own
        return True

    def store(self, stage: int, m: int, size: int) -> None:
        """Record that the offload has started."""
        self.used += size
        self.held[m] += size
        if (stage, m) in self.needed:
            self.outstanding[m] -= size
        self._note(m)

    def waive(self, stage: int, m: int, size: int) -> None:
        """Record that the backward started without the offload that had been set aside for it."""
        if (stage, m) in self.needed:
            self.outstanding[m] -= size
            self._note(m)

    def release(self, m: int, size: int) -> None:
        """Record that the reload has ended."""
        self.used -= size
        self.held[m] -= size
        self._note(m)

    def _note(self, m: int) -> None:
        """Keep `active`: the micro-batches that hold something or will need to."""
        if self.held[m] or self.outstanding[m]:
            self.active.add(m)
        else:
            self.active.discard(m)
