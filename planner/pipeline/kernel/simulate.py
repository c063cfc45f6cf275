"""Timing of token sequences that offload: the iteration followed event by event.

Devices start their tokens in sequence; an F, an R, and a B that allocates wait until their bytes
fit. An offload is asked for when its F ends. Channels serve whoever can start first. Operations
are committed in the order of their starts, so that everything an operation waits for is known
when its turn comes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.compiled import inlined, inner
from planner.pipeline.kernel.longest_path import DEADLOCK, TOO_LATE
from planner.pipeline.kernel.tables import (
    ALLOCATED,
    BACKWARD,
    CELL,
    CHANNEL,
    DEVICE,
    DURATION,
    EPILOGUE,
    FORWARD,
    FREED,
    HOST,
    KIND,
    LAG,
    LIMIT,
    OFFLOAD,
    PREDECESSOR,
    RELOAD,
    SUCCESSOR,
    Integers,
    Tables,
)

NEVER = 2**62
UNKNOWN = -1


(
    POSITION,
    FREE_NS,
    LAST_START_NS,
    USED,
    FREED_WHEN_NS,
    FREED_BYTES,
    PENDING_HEAD,
    PENDING_TAIL,
    REMAINING_NS,
) = range(9)
"""Columns of `Workspace.per_device`."""
CHANNEL_FREE_NS = HOST_USED = 0
HEAD, TAIL = 1, 2
"""Columns of `Workspace.per_channel` and `Workspace.per_host`, the latter two of their queues."""


class Workspace(NamedTuple):
    """Arrays that a simulation uses, kept from one to the next.

    Queues between a head and a tail: `pending[d]` offloads whose bytes the device still counts,
    `waiting[c]` offloads that a channel has been asked for, `host_pending[h]` reloads whose bytes
    the host still counts. `next_start_ns` of the devices, then of the channels.
    """

    per_device: Integers
    per_channel: Integers
    per_host: Integers
    next_start_ns: Integers
    pending: Integers
    waiting: Integers
    host_pending: Integers


def workspace_for(tables: Tables) -> Workspace:
    """Work space for the problem of these tables."""
    cells = tables.stages * tables.micro_batches
    devices, channels, hosts = len(tables.devices), tables.channels, len(tables.host_limit)
    deepest = int(np.bincount(tables.ops[:cells, DEVICE]).max())
    shapes = (
        (devices, 9),
        (channels, 3),
        (hosts, 3),
        (devices + channels,),
        (devices, deepest),
        (channels, cells),
        (hosts, cells),
    )
    return Workspace(*(np.zeros(shape, dtype=np.int64) for shape in shapes))


@inner
def simulate(
    tables: Tables,
    rows: Integers,
    lengths: Integers,
    offloaded: Integers,
    end_ns: Integers,
    cutoff_ns: int,
    work: Workspace,
) -> int:
    """Fill `end_ns` of every token and offload; `offloaded[cell]` says which cells have an R.

    Returns the largest end with epilogue of all devices, `DEADLOCK` if the sequences wait for
    each other or do not fit, `TOO_LATE` as soon as the answer is sure to exceed `cutoff_ns`.
    """
    left = _reset(tables, rows, lengths, end_ns, work)
    devices = len(tables.devices)
    entities = devices + tables.channels
    while True:
        chosen, when = -1, NEVER
        for e in range(entities):
            start = work.next_start_ns[e]
            if start == UNKNOWN:
                if e < devices:
                    start = _device_start(tables, rows, lengths, offloaded, end_ns, e, work)
                else:
                    start = _channel_start(tables, end_ns, e - devices, work)
                work.next_start_ns[e] = start
            if start < when:
                chosen, when = e, start
        if chosen < 0:
            break
        if chosen >= devices:
            c = chosen - devices
            token = work.waiting[c, work.per_channel[c, HEAD]]
            if when < work.per_channel[c, CHANNEL_FREE_NS]:
                # Another transfer has taken the channel since.
                work.next_start_ns[chosen] = UNKNOWN
                continue
            work.per_channel[c, HEAD] += 1
            work.next_start_ns[chosen] = UNKNOWN
        else:
            token = rows[chosen, work.per_device[chosen, POSITION]]
            if tables.ops[token, KIND] == RELOAD:
                c = tables.ops[token, CHANNEL]
                if when < work.per_channel[c, CHANNEL_FREE_NS]:
                    work.next_start_ns[chosen] = UNKNOWN
                    continue
            elif when + work.per_device[chosen, REMAINING_NS] > cutoff_ns:
                return TOO_LATE
            work.next_start_ns[chosen] = UNKNOWN
            left -= 1
            offload = _run_token(tables, offloaded, token, chosen, when, end_ns, work)
            after = tables.ops[token, SUCCESSOR]
            if after >= 0:
                work.next_start_ns[tables.ops[after, DEVICE]] = UNKNOWN
            if tables.ops[token, KIND] == RELOAD and tables.devices[chosen, HOST] >= 0:
                for c in range(tables.channels):
                    work.next_start_ns[devices + c] = UNKNOWN
            if offload < 0:
                continue
            c = tables.ops[offload, CHANNEL]
            if not tables.private[c]:
                # Until the offload has run, its place holds when it was asked for.
                end_ns[offload] = -2 - end_ns[token]
                _insert(work.waiting, work.per_channel, c, offload, end_ns)
                work.next_start_ns[devices + c] = UNKNOWN
                continue
            token, when = offload, max(end_ns[token], work.per_channel[c, CHANNEL_FREE_NS])
        _run_offload(tables, token, when, end_ns, work)
        work.next_start_ns[tables.ops[token, DEVICE]] = UNKNOWN
        if tables.devices[tables.ops[token, DEVICE], HOST] >= 0:
            # It took room in the host, on which other channels may have counted.
            for c in range(tables.channels):
                work.next_start_ns[devices + c] = UNKNOWN
    if left:
        return DEADLOCK
    latest = 0
    for d in range(devices):
        if lengths[d]:
            latest = max(latest, work.per_device[d, FREE_NS] + tables.devices[d, EPILOGUE])
    return latest


@inlined
def _reset(
    tables: Tables, rows: Integers, lengths: Integers, end_ns: Integers, work: Workspace
) -> int:
    """Set everything back to the beginning; how many tokens there are to run."""
    for operation in range(len(end_ns)):
        end_ns[operation] = -1
    left = 0
    work.per_device[:] = 0
    work.per_channel[:] = 0
    work.per_host[:] = 0
    work.next_start_ns[:] = UNKNOWN
    for d in range(len(tables.devices)):
        total = tables.devices[d, EPILOGUE]
        for k in range(lengths[d]):
            if tables.ops[rows[d, k], KIND] != RELOAD:
                total += tables.ops[rows[d, k], DURATION]
        work.per_device[d, REMAINING_NS] = total
        left += lengths[d]
    return left


@inlined
def _device_start(
    tables: Tables,
    rows: Integers,
    lengths: Integers,
    offloaded: Integers,
    end_ns: Integers,
    d: int,
    work: Workspace,
) -> int:
    """When the device's next token can start; `NEVER` while that is not known."""
    k = work.per_device[d, POSITION]
    if k == lengths[d]:
        return NEVER
    token = rows[d, k]
    kind = tables.ops[token, KIND]
    size = tables.stages * tables.micro_batches
    if kind == RELOAD:
        start: int = end_ns[token + size]
        if start < 0:
            return NEVER
        start = max(start, work.per_device[d, LAST_START_NS])
    else:
        start = max(work.per_device[d, FREE_NS], work.per_device[d, LAST_START_NS])
        before = tables.ops[token, PREDECESSOR]
        if before >= 0:
            if end_ns[before] < 0:
                return NEVER
            start = max(start, end_ns[before] + tables.ops[token, LAG])
        if kind != FORWARD:
            # B needs its own F, W its own B; B an R where it was offloaded.
            if end_ns[token - size] < 0:
                return NEVER
            start = max(start, end_ns[token - size])
            if kind == BACKWARD and offloaded[tables.ops[token, CELL]]:
                if end_ns[token + 2 * size] < 0:
                    return NEVER
                start = max(start, end_ns[token + 2 * size])
    if tables.ops[token, ALLOCATED]:
        start = _when_it_fits(tables, token, d, start, end_ns, work)
    if kind == RELOAD and start < NEVER:
        start = max(start, work.per_channel[tables.ops[token, CHANNEL], CHANNEL_FREE_NS])
    return start


@inlined
def _when_it_fits(
    tables: Tables, token: int, d: int, start: int, end_ns: Integers, work: Workspace
) -> int:
    """The first instant from `start` on at which the token's bytes fit on the device."""
    missing = work.per_device[d, USED] + tables.ops[token, ALLOCATED] - tables.devices[d, LIMIT]
    if missing <= 0:
        return start
    head = work.per_device[d, PENDING_HEAD]
    compute_bytes = work.per_device[d, FREED_BYTES]
    while missing > 0:
        offload_ns = NEVER
        if head < work.per_device[d, PENDING_TAIL]:
            offload_ns = end_ns[work.pending[d, head]]
        if compute_bytes and work.per_device[d, FREED_WHEN_NS] <= offload_ns:
            start = max(start, work.per_device[d, FREED_WHEN_NS])
            missing -= compute_bytes
            compute_bytes = 0
        elif offload_ns < NEVER:
            start = max(start, offload_ns)
            missing -= tables.ops[work.pending[d, head], FREED]
            head += 1
        else:
            return NEVER
    return start


@inlined
def _settle(tables: Tables, d: int, now: int, end_ns: Integers, work: Workspace) -> None:
    """Give back what has been freed on the device by now."""
    if work.per_device[d, FREED_BYTES] and work.per_device[d, FREED_WHEN_NS] <= now:
        work.per_device[d, USED] -= work.per_device[d, FREED_BYTES]
        work.per_device[d, FREED_BYTES] = 0
    while work.per_device[d, PENDING_HEAD] < work.per_device[d, PENDING_TAIL]:
        token = work.pending[d, work.per_device[d, PENDING_HEAD]]
        if end_ns[token] > now:
            break
        work.per_device[d, USED] -= tables.ops[token, FREED]
        work.per_device[d, PENDING_HEAD] += 1


@inlined
def _run_token(
    tables: Tables,
    offloaded: Integers,
    token: int,
    d: int,
    now: int,
    end_ns: Integers,
    work: Workspace,
) -> int:
    """Start the device's next token now; the offload that its end asks for, or -1."""
    _settle(tables, d, now, end_ns, work)
    kind = tables.ops[token, KIND]
    end = now + tables.ops[token, DURATION]
    end_ns[token] = end
    work.per_device[d, POSITION] += 1
    work.per_device[d, LAST_START_NS] = now
    work.per_device[d, USED] += tables.ops[token, ALLOCATED]
    if kind == RELOAD:
        work.per_channel[tables.ops[token, CHANNEL], CHANNEL_FREE_NS] = end
        h = tables.devices[d, HOST]
        if h >= 0:
            _insert(work.host_pending, work.per_host, h, token, end_ns)
        return -1
    # Frees of the token before are due by now, since it has ended.
    work.per_device[d, FREE_NS] = end
    work.per_device[d, REMAINING_NS] -= tables.ops[token, DURATION]
    if tables.ops[token, FREED]:
        work.per_device[d, USED] -= work.per_device[d, FREED_BYTES]
        work.per_device[d, FREED_BYTES] = tables.ops[token, FREED]
        work.per_device[d, FREED_WHEN_NS] = end
    if kind == FORWARD and offloaded[tables.ops[token, CELL]]:
        return token + OFFLOAD * tables.stages * tables.micro_batches
    return -1


@inlined
def _run_offload(tables: Tables, token: int, now: int, end_ns: Integers, work: Workspace) -> None:
    """Start an offload now."""
    d = tables.ops[token, DEVICE]
    c = tables.ops[token, CHANNEL]
    end = now + tables.ops[token, DURATION]
    end_ns[token] = end
    work.per_channel[c, CHANNEL_FREE_NS] = end
    work.pending[d, work.per_device[d, PENDING_TAIL]] = token
    work.per_device[d, PENDING_TAIL] += 1
    h = tables.devices[d, HOST]
    if h >= 0:
        while work.per_host[h, HEAD] < work.per_host[h, TAIL]:
            reload = work.host_pending[h, work.per_host[h, HEAD]]
            if end_ns[reload] > now:
                break
            work.per_host[h, HOST_USED] -= tables.ops[reload, ALLOCATED]
            work.per_host[h, HEAD] += 1
        work.per_host[h, HOST_USED] += tables.ops[token, FREED]


@inlined
def _channel_start(tables: Tables, end_ns: Integers, c: int, work: Workspace) -> int:
    """When the channel's first waiting offload can start; `NEVER` if there is none or no room."""
    if work.per_channel[c, HEAD] == work.per_channel[c, TAIL]:
        return NEVER
    token = work.waiting[c, work.per_channel[c, HEAD]]
    start: int = max(work.per_channel[c, CHANNEL_FREE_NS], -2 - end_ns[token])
    h = tables.devices[tables.ops[token, DEVICE], HOST]
    if h < 0:
        return start
    missing = work.per_host[h, HOST_USED] + tables.ops[token, FREED] - tables.host_limit[h]
    head = work.per_host[h, HEAD]
    while missing > 0:
        if head == work.per_host[h, TAIL]:
            return NEVER
        reload = work.host_pending[h, head]
        start = max(start, end_ns[reload])
        missing -= tables.ops[reload, ALLOCATED]
        head += 1
    return start


@inlined
def _insert(queues: Integers, bounds: Integers, q: int, token: int, key: Integers) -> None:
    """Add to a queue that is sorted by the absolute value of its tokens' keys."""
    k = bounds[q, TAIL]
    while k > bounds[q, HEAD] and abs(key[queues[q, k - 1]]) > abs(key[token]):
        queues[q, k] = queues[q, k - 1]
        k -= 1
    queues[q, k] = token
    bounds[q, TAIL] += 1
