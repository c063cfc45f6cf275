"""Whether a schedule keeps every rule, by arrays: for schedules of very many operations.

Like `verify`, written against the rules and from the figures of the problem alone. It says only
whether all is well, and of long schedules that is the verdict; where it is not, `verify` goes
through the rules one by one, and what that finds counts. Tests hold the two and a checker outside
the planner equal on valid and on broken schedules.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
import numpy.typing as npt

from planner.pipeline.problem import MicroBatchOrder, PipelineProblem
from planner.pipeline.schedule import OpKind, Schedule
from planner.progress import StopCheck, check, never

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

KINDS: tuple[OpKind, ...] = ("F", "B", "W", "O", "R")
FORWARD, BACKWARD, WEIGHT, OFFLOAD, RELOAD = range(5)
LARGEST_SUM = 2**62
"""Times and sums that may exceed this are left to whole numbers without limit: with a quantity of
the problem added, which is below 2**53, they still fit into 64 bits."""


def is_valid(problem: PipelineProblem, schedule: Schedule, should_stop: StopCheck = never) -> bool:
    """Whether `verify` finds nothing. False also where numbers are too large to say so here.

    Raises `Interrupted` if told to stop.
    """
    check(should_stop)
    found = _Times.of(problem, schedule)
    if found is None:
        return False
    for keeps_rule in (_is_complete, _waits_for_data, _is_exclusive, _fits, _has_right_figures):
        check(should_stop)
        if not keeps_rule(problem, schedule, found):
            return False
    return True


class _Times:
    """Starts and ends by kind, stage and micro-batch, and which operations are `there`."""

    def __init__(self, there: Flags, start_ns: Integers, end_ns: Integers) -> None:
        self.there = there
        self.start_ns = start_ns
        self.end_ns = end_ns

    @classmethod
    def of(cls, problem: PipelineProblem, schedule: Schedule) -> _Times | None:
        """None if an operation is unknown, or there twice, or at a time that is too large."""
        shape = (len(KINDS), len(problem.stages), problem.micro_batches)
        number_of = {kind: k for k, kind in enumerate(KINDS)}
        kinds, *columns = zip(*schedule.ops, strict=True)
        kind = np.array([number_of.get(name, -1) for name in kinds])
        try:
            stage, micro_batch, start_ns, end_ns = (
                np.array(column, dtype=np.int64) for column in columns
            )
        except OverflowError:
            return None
        if max(start_ns.max(), end_ns.max()) > LARGEST_SUM:
            return None
        for values, size in zip((kind, stage, micro_batch), shape, strict=True):
            if values.min() < 0 or values.max() >= size:
                return None
        number = np.ravel_multi_index((kind, stage, micro_batch), shape)
        counts = np.bincount(number, minlength=np.prod(shape))
        if counts.max() > 1:
            return None
        times = np.zeros((2, counts.size), dtype=np.int64)
        times[:, number] = start_ns, end_ns
        return cls(counts.reshape(shape) > 0, *times.reshape(2, *shape))


def _grid(problem: PipelineProblem, name: str) -> Integers:
    """A quantity of the stages by stage and micro-batch."""
    rows = [getattr(stage, name) for stage in problem.stages]
    flat = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
    return flat.reshape(len(rows), problem.micro_batches)


def _is_complete(problem: PipelineProblem, _: Schedule, found: _Times) -> bool:
    """Rule 1: what there has to be, of exactly its length, from 0 on."""
    lengths = np.stack(
        [
            _grid(problem, name)
            for name in (
                "forward_ns",
                "backward_input_ns",
                "backward_weight_ns",
                "offload_ns",
                "reload_ns",
            )
        ]
    )
    there = found.there
    has_weight = _grid(problem, "backward_weight_ns") > 0
    can_offload = _grid(problem, "offload_bytes") > 0
    return bool(
        (found.start_ns >= 0).all()
        and (found.end_ns - found.start_ns == lengths)[there].all()
        and there[FORWARD].all()
        and there[BACKWARD].all()
        and there[WEIGHT][has_weight].all()
        and (there[OFFLOAD] == there[RELOAD]).all()
        and not there[OFFLOAD][~can_offload].any()
    )


def _waits_for_data(problem: PipelineProblem, _: Schedule, found: _Times) -> bool:
    """Rules 2 and 3, and the fixed micro-batch order."""
    there, start_ns, end_ns = found.there, found.start_ns, found.end_ns
    down, up = slice(1, None), slice(None, -1)
    if problem.transfers:
        forward = np.array([transfer.forward_ns for transfer in problem.transfers])
        backward = np.array([transfer.backward_ns for transfer in problem.transfers])
        if (start_ns[FORWARD, down] < end_ns[FORWARD, up] + forward).any():
            return False
        if (start_ns[BACKWARD, up] < end_ns[BACKWARD, down] + backward).any():
            return False
    for late, early in (
        (BACKWARD, FORWARD),
        (WEIGHT, BACKWARD),
        (OFFLOAD, FORWARD),
        (RELOAD, OFFLOAD),
        (BACKWARD, RELOAD),
    ):
        both = there[late] & there[early]
        if (start_ns[late] < end_ns[early])[both].any():
            return False
    if problem.micro_batch_order is not MicroBatchOrder.FIXED:
        return True
    computed = slice(FORWARD, WEIGHT + 1)
    both = there[computed, :, down] & there[computed, :, up]
    return not (start_ns[computed, :, down] < end_ns[computed, :, up])[both].any()


def _is_exclusive(problem: PipelineProblem, _: Schedule, found: _Times) -> bool:
    """Rule 4: one operation at a time per device and per channel of a host link."""
    users: dict[object, int] = {}
    user = np.empty(found.there.shape, dtype=np.int64)
    for s, stage in enumerate(problem.stages):
        user[[FORWARD, BACKWARD, WEIGHT], s] = users.setdefault(stage.device, len(users))
        for kind in (OFFLOAD, RELOAD):
            user[kind, s] = users.setdefault(problem.channel(s, KINDS[kind]), len(users))
    lasting = found.there & (found.end_ns > found.start_ns)
    own, start_ns, end_ns = user[lasting], found.start_ns[lasting], found.end_ns[lasting]
    order = np.lexsort((end_ns, start_ns, own))
    same = own[order][1:] == own[order][:-1]
    return not (start_ns[order][1:] < end_ns[order][:-1])[same].any()


def _fits(problem: PipelineProblem, schedule: Schedule, found: _Times) -> bool:
    """Rules 5 and 6: device and host memory stay within their limits, and are given back."""
    limits = [device.activation_memory_bytes for device in problem.devices]
    limits += [host.memory_bytes for host in problem.hosts]
    peaks = [*schedule.peak_memory_bytes, *schedule.host_peak_memory_bytes]
    if len(peaks) != len(limits):
        return False
    owner, when_ns, change = _memory_events(problem, found)
    if len(change) and int(np.abs(change).max()) * len(change) > LARGEST_SUM:
        return False
    order = np.lexsort((when_ns, owner))
    owner, when_ns, used = owner[order], when_ns[order], np.cumsum(change[order])
    # What is in use once everything of an instant has happened; each memory gives back all, so
    # that the sums of the next one begin at 0.
    is_last = np.ones(len(owner), dtype=np.bool_)
    is_last[:-1] = (owner[1:] != owner[:-1]) | (when_ns[1:] != when_ns[:-1])
    ends = np.append(owner[1:] != owner[:-1], True)[: len(owner)]
    if used[ends].any():
        return False
    found_peaks = np.zeros(len(limits), dtype=np.int64)
    np.maximum.at(found_peaks, owner[is_last], used[is_last])
    return all(
        peak == reported and (limit is None or peak <= limit)
        for peak, reported, limit in zip(found_peaks.tolist(), peaks, limits, strict=True)
    )


def _memory_events(problem: PipelineProblem, found: _Times) -> tuple[Integers, Integers, Integers]:
    """Every change of memory in use: of which memory, when, and by how many bytes. Hosts follow
    the devices."""
    activation, gradient, workspace, moved = (
        _grid(problem, name)
        for name in (
            "activation_bytes",
            "weight_grad_bytes",
            "backward_workspace_bytes",
            "offload_bytes",
        )
    )
    late = np.where(_grid(problem, "backward_weight_ns") > 0, gradient, 0)
    device = np.array([stage.device for stage in problem.stages])
    hosts = [problem.devices[stage.device].host for stage in problem.stages]
    host = np.array([-1 if h is None else len(problem.devices) + h for h in hosts])
    start_ns, end_ns = found.start_ns, found.end_ns
    parts = []
    for kind, memory, when_ns, change in (
        (FORWARD, device, start_ns, activation),
        (BACKWARD, device, start_ns, np.maximum(late - activation, 0) + workspace),
        (BACKWARD, device, end_ns, -(np.maximum(activation - late, 0) + workspace)),
        (WEIGHT, device, end_ns, -late),
        (OFFLOAD, device, end_ns, -moved),
        (RELOAD, device, start_ns, moved),
        (OFFLOAD, host, start_ns, moved),
        (RELOAD, host, end_ns, -moved),
    ):
        there = found.there[kind] & (memory >= 0)[:, None]
        owners = np.broadcast_to(memory[:, None], there.shape)
        parts.append((owners[there], when_ns[kind][there], change[there]))
    owner, when, changes = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return owner, when, changes


def _has_right_figures(problem: PipelineProblem, schedule: Schedule, found: _Times) -> bool:
    """Rule 7: the makespan and the steady span are what the operations say."""
    there = found.there[[FORWARD, BACKWARD, WEIGHT]]
    largest = np.iinfo(np.int64).max
    first_of_stage = np.where(there, found.start_ns[[FORWARD, BACKWARD, WEIGHT]], largest).min(
        axis=(0, 2)
    )
    last_of_stage = np.where(there, found.end_ns[[FORWARD, BACKWARD, WEIGHT]], -1).max(axis=(0, 2))
    device = np.array([stage.device for stage in problem.stages])
    first = np.full(len(problem.devices), largest)
    last = np.full(len(problem.devices), -1)
    np.minimum.at(first, device, first_of_stage)
    np.maximum.at(last, device, last_of_stage)
    used = np.unique(device)
    epilogue = np.array([one.epilogue_ns for one in problem.devices])
    ends = last[used] + epilogue[used]
    makespan_ns = int(ends.max() - first[used].min())
    span_ns = int((ends - first[used]).max())
    return (schedule.makespan_ns, schedule.steady_span_ns) == (makespan_ns, span_ns)
