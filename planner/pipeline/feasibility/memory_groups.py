"""Devices whose memory has to be looked at together, and the smallest limits that would do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from planner.errors import Undecided
from planner.pipeline.feasibility.host_search import SearchBudget
from planner.pipeline.feasibility.memory_chunks import Chunk, Moves, chunks_of, peak_bytes_alone
from planner.pipeline.feasibility.memory_walk import fewest_offloads, find_moves
from planner.pipeline.feasibility.shortage import DeviceShortage, HostShortage
from planner.pipeline.problem import PipelineProblem

Limits = Mapping[int, int | None]


def memory_groups(problem: PipelineProblem, micro_batches: list[int]) -> list[MemoryGroup]:
    """Devices that offload to one limited host, and every other device alone.

    `micro_batches` are those to look at: one of each kind is enough.
    """
    shared: dict[int, list[int]] = defaultdict(list)
    groups = []
    budget = SearchBudget()
    for d, device in enumerate(problem.devices):
        if not problem.stages_of_device[d]:
            continue
        limited = device.host is not None and problem.hosts[device.host].memory_bytes is not None
        if device.host is not None and limited:
            shared[device.host].append(d)
        else:
            groups.append(_group(problem, None, [d], micro_batches, budget))
    groups += [_group(problem, h, own, micro_batches, budget) for h, own in shared.items()]
    return groups


def _group(
    problem: PipelineProblem,
    host: int | None,
    devices: list[int],
    micro_batches: list[int],
    budget: SearchBudget,
) -> MemoryGroup:
    return MemoryGroup(
        budget=budget,
        host=host,
        host_limit=None if host is None else problem.hosts[host].memory_bytes,
        limits={d: problem.devices[d].activation_memory_bytes for d in devices},
        chunks={m: {d: chunks_of(problem, d, m) for d in devices} for m in micro_batches},
    )


@dataclass(frozen=True)
class MemoryGroup:
    """Devices that share a limited host, or one device (`host` None).

    `limits` per device; `chunks` per micro-batch and device; the groups of a problem share their
    `budget`.
    """

    host: int | None
    host_limit: int | None
    limits: Limits
    chunks: dict[int, dict[int, tuple[Chunk, ...]]]
    budget: SearchBudget
    _known: dict[tuple[int, int, int | None], int | None] = field(default_factory=dict)

    def find_moves(self, micro_batch: int) -> Moves | None:
        """Offloads and reloads with which the micro-batch alone fits; None if there are none.

        Raises `Undecided` where many chunks share a host that is short of room.
        """
        return find_moves(
            self.chunks[micro_batch], micro_batch, self.limits, self.host_limit, self.budget
        )

    def fits(self, limits: Limits, host_limit: int | None) -> bool:
        """Whether each micro-batch alone would fit under other limits.

        What cannot be decided counts as not fitting: limits found so suffice, if not the least.
        """
        try:
            return all(self._passes(m, limits, host_limit) for m in self.chunks)
        except Undecided:
            return False

    def certainly_fails(self, micro_batch: int) -> bool:
        """Whether it is proven that the micro-batch alone does not fit."""
        try:
            return not self._passes(micro_batch, self.limits, self.host_limit)
        except Undecided:
            return False

    def _passes(self, micro_batch: int, limits: Limits, host_limit: int | None) -> bool:
        """`find_moves(...) is not None`, remembering what does not change between limits."""
        total = 0
        for device, limit in limits.items():
            out = self._fewest_bytes_out(micro_batch, device, limit)
            if out is None:
                return False
            total += out
        if host_limit is None or total <= host_limit:
            return True
        chunks = self.chunks[micro_batch]
        return find_moves(chunks, micro_batch, limits, host_limit, self.budget) is not None

    def _fewest_bytes_out(self, micro_batch: int, device: int, limit: int | None) -> int | None:
        """Bytes of the fewest offloads with which the device's limit does; None if none do."""
        key = micro_batch, device, limit
        if key not in self._known:
            chunks = self.chunks[micro_batch][device]
            out = fewest_offloads(chunks, limit)
            self._known[key] = (
                None if out is None else sum(c.offload for c in chunks if c.stage in out)
            )
        return self._known[key]

    def least_bytes(self, device: int) -> int:
        """What the device needs if everything that may be offloaded is."""
        return max(
            peak_bytes_alone(own[device], {chunk.stage for chunk in own[device]})
            for own in self.chunks.values()
        )

    def unassisted_bytes(self, device: int) -> int:
        """What the device needs if nothing is offloaded."""
        return max(peak_bytes_alone(own[device], ()) for own in self.chunks.values())

    def shortages(self) -> tuple[list[DeviceShortage], list[HostShortage]]:
        """Who is at fault in a group that does not fit, and the smallest limits that would do.

        At fault are the devices that are short even with everything offloaded; if the others do
        not fit together, also the host and whoever would have to offload to it. The smallest
        limits are found one device after the other, those to come taken as without limit, so that
        together they do and none can be lowered alone. A device that can keep its limit if those
        after it are raised is not at fault.
        """
        limits = {d: limit for d, limit in self.limits.items() if limit is not None}
        at_fault = [d for d, limit in limits.items() if self.least_bytes(d) > limit]
        hosts: list[HostShortage] = []
        relaxed = {**self.limits, **dict.fromkeys(at_fault)}
        if self.host is not None and not self.fits(relaxed, self.host_limit):
            at_fault = [d for d, limit in limits.items() if self.unassisted_bytes(d) > limit]
            hosts.append(self._host_shortage(self.host, self.host_limit or 0, relaxed))
        tried: dict[int, int | None] = {**self.limits, **dict.fromkeys(at_fault)}
        devices = []
        for d in at_fault:
            smallest = self._smallest_limit(d, limits[d], tried)
            tried[d] = smallest
            if smallest > limits[d]:
                devices.append(DeviceShortage(d, limits[d], smallest, self.unassisted_bytes(d)))
        return devices, hosts

    def _host_shortage(self, host: int, host_limit: int, relaxed: Limits) -> HostShortage:
        """The least host memory that would do if no device were short by itself."""
        everything = max(
            sum(chunk.offload for own in by_device.values() for chunk in own)
            for by_device in self.chunks.values()
        )
        smallest = _least(host_limit, everything, lambda size: self.fits(relaxed, size))
        return HostShortage(host, host_limit, smallest)

    def _smallest_limit(self, device: int, current: int, limits: Limits) -> int:
        def does(size: int) -> bool:
            return self.fits({**limits, device: size}, self.host_limit)

        low = max(current, self.least_bytes(device))
        return _least(low, self.unassisted_bytes(device), does)


def _least(low: int, high: int, does: Callable[[int], bool]) -> int:
    """The least number of low..high that does; all above it do, and `high` is known to."""
    while low < high:
        middle = (low + high) // 2
        if does(middle):
            high = middle
        else:
            low = middle + 1
    return low
