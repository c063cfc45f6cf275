"""The simulation of `simulation.Simulation` as compiled code, for iterations of many operations.

It starts the same operations at the same instants and in the same sequence: whoever changes one
changes both. Unlike `kernel.simulate` it knows operations of no length and given channel and host
orders, and costs more.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush

import numpy as np

from planner.compiled import compiled
from planner.pipeline.kernel.orders import OrderArrays, order_arrays
from planner.pipeline.kernel.tables import (
    ALLOCATED,
    ASSIGNED_HOST,
    BACKWARD,
    CHANNEL,
    DEVICE,
    DURATION,
    FORWARD,
    FREED,
    LAG,
    LIMIT,
    OFFLOAD,
    RELOAD,
    SUCCESSOR,
    WEIGHT,
    Flags,
    Integers,
    Tables,
    operation_numbers,
    without_limits,
)
from planner.pipeline.orders import Channel, Orders
from planner.pipeline.schedule import Token

Entry = tuple[np.int64, np.int64, np.int64]
"""Of a queue: position or instant, serial number, operation."""
FIRST_COME = np.empty(0, dtype=np.int64)
"""Positions where transfers are served first come, first served."""


def simulated(
    tables: Tables, orders: Orders, enforce_memory: bool
) -> tuple[Integers, Integers] | None:
    """What `Simulation(problem, orders, enforce_memory).run()` returns, as operation numbers and
    starts (ns); None where it raises."""
    numbers, starts, complete = simulate_events(
        tables if enforce_memory else without_limits(tables),
        order_arrays(tables, orders),
        _positions(tables, orders.channels),
        _positions(tables, orders.hosts),
    )
    return (numbers, starts) if complete else None


def _positions(
    tables: Tables,
    orders: Mapping[Channel, tuple[Token, ...]] | Mapping[int, tuple[Token, ...]] | None,
) -> Integers:
    """Per operation its place in its channel or host order."""
    if orders is None:
        return FIRST_COME
    positions = np.full(len(tables.ops), -1, dtype=np.int64)
    for tokens in orders.values():
        positions[operation_numbers(tables, tokens)] = np.arange(len(tokens))
    return positions


def simulate_events(
    tables: Tables,
    orders: OrderArrays,
    channel_position: Integers = FIRST_COME,
    host_position: Integers = FIRST_COME,
) -> tuple[Integers, Integers, bool]:
    """Run the orders; positions are per operation, or `FIRST_COME`.

    Returns operation numbers in the sequence of their starts, their starts (ns), and whether
    every sequence came to its end.
    """
    numbers, starts, complete = _simulate(tables, *orders, channel_position, host_position)
    return numbers, starts, bool(complete)


@compiled
def _simulate(
    tables: Tables,
    sequence: Integers,
    first: Integers,
    channel_position: Integers,
    host_position: Integers,
) -> tuple[Integers, Integers, bool]:
    ops, limits, host_limit = tables.ops, tables.devices[:, LIMIT], tables.host_limit
    count, channels = tables.micro_batches, tables.channels
    fixed_order = tables.fixed_order != 0
    block = tables.stages * count
    devices = len(first) - 1
    by_position = len(channel_position) > 0
    by_host_position = len(host_position) > 0
    ended = np.zeros(5 * block, dtype=np.bool_)
    requested = np.zeros(block, dtype=np.bool_)  # reloads
    offloaded = np.zeros(block, dtype=np.bool_)
    for k in range(len(sequence)):
        if sequence[k] >= RELOAD * block:
            offloaded[sequence[k] - RELOAD * block] = True
    arrival = np.full(2 * block, -1, dtype=np.int64)
    arrival[:count] = 0
    used = np.zeros(devices, dtype=np.int64)
    host_used = np.zeros(len(host_limit), dtype=np.int64)
    host_next = np.zeros(len(host_limit), dtype=np.int64)
    channel_next = np.zeros(channels, dtype=np.int64)
    channel_free = np.zeros(channels, dtype=np.int64)
    device_free = np.zeros(devices, dtype=np.int64)
    following = first[:-1].copy()
    dirty = np.ones(devices, dtype=np.bool_)
    known = np.zeros(channels, dtype=np.bool_)
    served = np.zeros(channels, dtype=np.int64)  # channels in the order of their first request
    serving = 0
    # Channels whose queue, link or host has changed; of the others nothing can start.
    changed = np.zeros(channels, dtype=np.bool_)
    senders = np.zeros((len(host_limit), channels), dtype=np.bool_)
    for s in range(tables.stages):
        own = OFFLOAD * block + s * count
        home = tables.devices[ops[own, DEVICE], ASSIGNED_HOST]
        if home >= 0:
            senders[home, ops[own, CHANNEL]] = True
    size = len(sequence) + offloaded.sum()
    started = np.empty(size, dtype=np.int64)
    starts = np.empty(size, dtype=np.int64)
    done = 0
    serial = np.int64(0)
    # Devices that wake have the numbers -1, -2, ...
    events = [(np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]
    queues = [[(np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)] for _ in range(channels)]
    waiting = 0
    now = np.int64(0)
    while True:
        # Start what can start now; a started transfer lets its device go on, and the reverse.
        while True:
            for d in range(devices):
                if not dirty[d]:
                    continue
                dirty[d] = False
                while following[d] < first[d + 1]:
                    op = sequence[following[d]]
                    kind, cell = op // block, op % block
                    if kind == RELOAD:
                        ready = ended[OFFLOAD * block + cell]
                    elif kind == WEIGHT:
                        ready = ended[BACKWARD * block + cell]
                    else:
                        ready = 0 <= arrival[op] <= now
                        if ready and kind == BACKWARD:
                            before = RELOAD if offloaded[cell] else FORWARD
                            ready = ended[before * block + cell]
                    if ready and kind != RELOAD:
                        if ops[op, DURATION] > 0:
                            ready = device_free[d] <= now
                        elif fixed_order and cell % count > 0:
                            ready = ended[op - 1]
                    if not ready or used[d] + ops[op, ALLOCATED] > limits[d]:
                        break
                    if kind == RELOAD:
                        if not requested[cell]:
                            requested[cell] = True
                            changed[ops[op, CHANNEL]] = True
                            position = channel_position[op] if by_position else now
                            serial += 1
                            serving = _ask(
                                ops[op, CHANNEL],
                                (position, serial, op),
                                queues,
                                known,
                                served,
                                serving,
                            )
                            waiting += 1
                        break
                    end = now + ops[op, DURATION]
                    used[d] += ops[op, ALLOCATED]
                    started[done] = op
                    starts[done] = now
                    done += 1
                    serial += 1
                    heappush(events, (end, serial, op))
                    if end > now:
                        device_free[d] = end
                    after = ops[op, SUCCESSOR]
                    if after >= 0:
                        arrival[after] = end + ops[after, LAG]
                        serial += 1
                        heappush(events, (arrival[after], serial, -1 - ops[after, DEVICE]))
                    elif kind == FORWARD:
                        arrival[BACKWARD * block + cell] = end
                    following[d] += 1
            if waiting == 0:
                break
            again = False
            for k in range(serving):
                c = served[k]
                if not changed[c]:
                    continue
                changed[c] = False
                queue = queues[c]
                blocked = [(np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]
                while len(queue) > 0:
                    position, number, op = queue[0]
                    if by_position and position != channel_next[c]:
                        break
                    if ops[op, DURATION] > 0 and channel_free[c] > now:
                        break
                    heappop(queue)
                    kind, d = op // block, ops[op, DEVICE]
                    h = tables.devices[d, ASSIGNED_HOST]
                    room = True
                    if kind == OFFLOAD and h >= 0:
                        if by_host_position and host_position[op] != host_next[h]:
                            room = False
                        else:
                            room = host_used[h] + ops[op, FREED] <= host_limit[h]
                    if not room:
                        blocked.append((position, number, op))
                        if by_position:
                            break
                        continue
                    waiting -= 1
                    end = now + ops[op, DURATION]
                    used[d] += ops[op, ALLOCATED]
                    started[done] = op
                    starts[done] = now
                    done += 1
                    serial += 1
                    heappush(events, (end, serial, op))
                    channel_next[c] += 1
                    if ops[op, DURATION] > 0:
                        channel_free[c] = end
                    dirty[d] = True
                    again = True
                    if kind == RELOAD:
                        following[d] += 1
                    elif h >= 0:
                        host_next[h] += 1
                        host_used[h] += ops[op, FREED]
                        _mark(changed, senders[h])
                for entry in blocked:
                    heappush(queue, entry)
            if not again:
                break
        if len(events) == 0:
            break
        now = events[0][0]
        while len(events) > 0 and events[0][0] == now:
            _, _, op = heappop(events)
            if op < 0:
                dirty[-1 - op] = True
                continue
            ended[op] = True
            kind, cell = op // block, op % block
            d = ops[op, DEVICE]
            dirty[d] = True
            used[d] -= ops[op, FREED]
            if kind >= RELOAD:
                changed[ops[op, CHANNEL]] = True
            if kind == RELOAD:
                h = tables.devices[d, ASSIGNED_HOST]
                if h >= 0:
                    host_used[h] -= ops[op, ALLOCATED]
                    _mark(changed, senders[h])
            elif kind == FORWARD and offloaded[cell]:
                transfer = OFFLOAD * block + cell
                changed[ops[transfer, CHANNEL]] = True
                position = channel_position[transfer] if by_position else now
                serial += 1
                serving = _ask(
                    ops[transfer, CHANNEL],
                    (position, serial, transfer),
                    queues,
                    known,
                    served,
                    serving,
                )
                waiting += 1
    complete = True
    for d in range(devices):
        complete = complete and following[d] == first[d + 1]
    return started[:done], starts[:done], complete


@compiled
def _mark(changed: Flags, which: Flags) -> None:
    for c in range(len(changed)):
        if which[c]:
            changed[c] = True


@compiled
def _ask(
    channel: int,
    request: Entry,
    queues: list[list[Entry]],
    known: Flags,
    served: Integers,
    serving: int,
) -> int:
    """Put a request into a channel's queue; how many channels have been asked so far."""
    heappush(queues[channel], request)
    if known[channel]:
        return serving
    known[channel] = True
    served[serving] = channel
    return serving + 1
