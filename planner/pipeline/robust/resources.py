"""What operations share: the queues in which they run, and the memories that are scarce."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.pipeline.effects import MemoryKey
from planner.pipeline.kernel.tables import (
    ALLOCATED,
    ASSIGNED_HOST,
    CHANNEL,
    DEVICE,
    FREED,
    LIMIT,
    OFFLOAD,
    RELOAD,
    UNLIMITED,
    Flags,
    Integers,
    Tables,
)
from planner.pipeline.robust.groups import NOWHERE, bounds_of, by_group, sorted_by_group, sums_of


class QueueArrays(NamedTuple):
    """`queue[v]` and `position[v]` place an operation in its queue; queue q has the operations
    `members[first[q] : first[q + 1]]`."""

    queue: Integers
    position: Integers
    first: Integers
    members: Integers


class ScarceMemories(NamedTuple):
    """The memories that cannot hold all that an iteration allocates in them, as arrays.

    Of memory k, `limit_bytes[k]` is the limit, and entries `allocation_first[k]` to
    `allocation_first[k + 1]` of `allocation` and `allocated_bytes` are the operations that
    allocate in it, in the order in which they start. Entries `source_first[k]` to
    `source_first[k + 1]` of `source_queue` are the queues whose operations free it when they end.
    Of source i, entries `free_first[i]` to `free_first[i + 1]` of `free_position` are places in
    its queue, and `freed_bytes` what is free again with that one and those before it.
    """

    limit_bytes: Integers
    allocation_first: Integers
    allocation: Integers
    allocated_bytes: Integers
    source_first: Integers
    source_queue: Integers
    free_first: Integers
    free_position: Integers
    freed_bytes: Integers


def queues_of(tables: Tables, numbers: Integers, takes_time: Flags) -> QueueArrays:
    kinds = numbers // (tables.stages * tables.micro_batches)
    owner = np.where(
        kinds >= RELOAD,
        len(tables.devices) + tables.ops[numbers, CHANNEL],
        tables.ops[numbers, DEVICE],
    )
    label = 2 * owner + takes_time
    is_used = np.bincount(label) > 0
    queue = (np.cumsum(is_used) - 1)[label]
    first = bounds_of(queue, int(is_used.sum()))
    members = sorted_by_group(queue, first)
    position = np.empty(len(numbers), dtype=np.int64)
    position[members] = np.arange(len(numbers)) - first[queue[members]]
    return QueueArrays(queue, position, first, members)


class MemoryUses:
    """What operations allocate at their start and free at their end in scarce memories.

    An operation allocates in at most one memory and frees in at most one: an offload moves from
    its device's to its host's, a reload the other way.
    """

    def __init__(self, tables: Tables, numbers: Integers) -> None:
        devices = len(tables.devices)
        kinds = numbers // (tables.stages * tables.micro_batches)
        device = tables.ops[numbers, DEVICE]
        host = tables.devices[device, ASSIGNED_HOST]
        host = np.where(host >= 0, devices + host, NOWHERE)
        self.allocated_bytes = tables.ops[numbers, ALLOCATED]
        self.freed_bytes = tables.ops[numbers, FREED]
        # Tables have the bytes that a transfer moves with the device.
        offloads, reloads = kinds == OFFLOAD, kinds == RELOAD
        self.allocated_bytes = np.where(offloads, self.freed_bytes, self.allocated_bytes)
        self.freed_bytes = np.where(reloads, self.allocated_bytes, self.freed_bytes)
        allocates = np.where(offloads, host, device)
        frees = np.where(reloads, host, device)
        limits = np.concatenate([tables.devices[:, LIMIT], tables.host_limit])
        total = sums_of(allocates, self.allocated_bytes, len(limits))
        scarce = np.flatnonzero((total > limits) & (limits < UNLIMITED))
        self.limit_bytes = limits[scarce]
        self.keys: list[MemoryKey] = [
            ("device", k) if k < devices else ("host", k - devices) for k in scarce.tolist()
        ]
        number = np.full(len(limits) + 1, NOWHERE, dtype=np.int64)  # The last is of NOWHERE.
        number[scarce] = np.arange(len(scarce))
        self._allocates = np.where(self.allocated_bytes > 0, number[allocates], NOWHERE)
        self._frees = np.where(self.freed_bytes > 0, number[frees], NOWHERE)

    def allocations(self) -> tuple[Integers, Integers]:
        """Where the allocations of each memory begin, and all, in the order of their starts."""
        return by_group(self._allocates, len(self.keys))

    def scarce(self, queues: QueueArrays) -> ScarceMemories:
        """The memories with who allocates and which queues free."""
        allocation_first, allocation = self.allocations()
        freeing = np.flatnonzero(self._frees >= 0)
        pairs = self._frees[freeing] * len(queues.first) + queues.queue[freeing]
        sources, began, source_of = np.unique(pairs, return_index=True, return_inverse=True)
        memory, queue = np.divmod(sources, len(queues.first))
        # The sources of a memory are in the order in which they first free something.
        order = np.lexsort((began, memory))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        free_first, grouped = by_group(rank[source_of], len(order))
        frees = freeing[grouped]
        total = np.concatenate([[0], np.cumsum(self.freed_bytes[frees])])
        before = np.repeat(total[free_first[:-1]], np.diff(free_first))
        return ScarceMemories(
            limit_bytes=self.limit_bytes,
            allocation_first=allocation_first,
            allocation=allocation,
            allocated_bytes=self.allocated_bytes[allocation],
            source_first=bounds_of(memory, len(self.keys)),
            source_queue=queue[order],
            free_first=free_first,
            free_position=queues.position[frees],
            freed_bytes=total[1:] - before,
        )
