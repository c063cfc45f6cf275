"""Whether any schedule fits, exactly; if not, why not; if so, the simplest one.

A schedule exists if and only if every micro-batch alone gets through (`memory_walk`).

If each does, running them one after the other is a schedule: between two of them nothing is held.

Conversely take any schedule and drop all operations but those of one micro-batch; what is left
still fits, since every operation holds at least 0 bytes. Its F and B lie in one order. Put each O
where it ends, each R where it starts, each W right after its B, and run everything one at a time
in that order. At each allocation the serial run holds nothing that the schedule did not hold at
the same operation: a device holds an offloaded part until O ends and again when R starts, and a
host at least in between. So the serial run fits, and it is one of those that the search tries.

The search is exact: without a host limit it is best to have all earlier stages' parts out; with
one, all ways to offload and reload are tried. One instant is left out of account: where the F and
B of a micro-batch on its last stages take no time at all, or two B of one device fall on one
instant, the referee of schedules counts frees before allocations and might let pass what is
refused here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from planner.errors import OrderError
from planner.pipeline.feasibility.memory_chunks import Moves, chunks_of
from planner.pipeline.feasibility.memory_groups import memory_groups
from planner.pipeline.feasibility.remedies import Remedy, find_remedies
from planner.pipeline.feasibility.shortage import (
    DeviceShortage,
    HostShortage,
    alike_devices,
    runs,
)
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import OpKind, Schedule, TimedOp, Token
from planner.pipeline.timing import schedule_from_ops
from planner.sizes import gib


@dataclass(frozen=True)
class Infeasibility:
    """Who is short of how many bytes, for which micro-batches, and what would help.

    Setting every device at fault to its `smallest_limit_bytes` makes the problem feasible, and
    one byte less on any of them doesn't. Where a host is at fault, raising its memory alone would
    do as well, as far as its devices are not short by themselves.
    """

    device_shortages: tuple[DeviceShortage, ...]
    host_shortages: tuple[HostShortage, ...]
    micro_batches: tuple[int, ...]
    remedies: tuple[Remedy, ...]

    @property
    def devices(self) -> tuple[int, ...]:
        return tuple(shortage.device for shortage in self.device_shortages)

    @property
    def largest_gap_bytes(self) -> int:
        """How many bytes the device that lacks most lacks."""
        return max(s.smallest_limit_bytes - s.limit_bytes for s in self.device_shortages)

    @property
    def summary(self) -> str:
        """One sentence that says who is short of what."""
        parts = [
            f"on {who} it takes at least {gib(smallest)} for activations, and the limit is "
            f"{gib(limit)}"
            for who, limit, smallest in alike_devices(self.device_shortages)
        ]
        parts += [
            f"host {h.host} has {gib(h.limit_bytes)} for offloaded activations and would need "
            f"{gib(h.smallest_limit_bytes)}"
            for h in self.host_shortages
        ]
        which = runs(self.micro_batches)
        who = f"Micro-batch {which} does not fit into memory, not even"
        if len(self.micro_batches) > 1:
            who = f"Micro-batches {which} do not fit into memory, not even one at a time"
        return f"{who} with nothing else in it: {'; '.join(parts)}."

    def to_document(self) -> dict[str, Any]:
        """JSON; the lists of bytes have one entry per entry of `devices`.

        `bytes` is what a device holds at its worst instant if nothing is offloaded.
        """
        document: dict[str, Any] = {
            "summary": self.summary,
            "devices": list(self.devices),
            "micro_batches": list(self.micro_batches),
            "bytes": [s.unassisted_bytes for s in self.device_shortages],
            "limit_bytes": [s.limit_bytes for s in self.device_shortages],
            "smallest_limit_bytes": [s.smallest_limit_bytes for s in self.device_shortages],
            "remedies": [remedy.to_document() for remedy in self.remedies],
        }
        if self.host_shortages:
            document["hosts"] = [
                {
                    "host": h.host,
                    "limit_bytes": h.limit_bytes,
                    "smallest_limit_bytes": h.smallest_limit_bytes,
                }
                for h in self.host_shortages
            ]
        return document


def find_infeasibility(problem: PipelineProblem) -> Infeasibility | None:
    """Why no schedule exists, or None if one does.

    None too where many chunks share a host that is short of room and the search was given up: a
    solver may still find a schedule.
    """
    devices: list[DeviceShortage] = []
    hosts: list[HostShortage] = []
    micro_batches: set[int] = set()
    kinds = _kinds_of_micro_batches(problem)
    for group in memory_groups(problem, list(kinds)):
        failing = [m for m in kinds if group.certainly_fails(m)]
        if not failing:
            continue
        micro_batches.update(k for m in failing for k in kinds[m])
        own_devices, own_hosts = group.shortages()
        devices += own_devices
        hosts += own_hosts
    if not devices:
        return None
    devices.sort(key=lambda shortage: shortage.device)
    return Infeasibility(
        device_shortages=tuple(devices),
        host_shortages=tuple(hosts),
        micro_batches=tuple(sorted(micro_batches)),
        remedies=find_remedies(problem, devices, hosts, sorted(micro_batches)),
    )


def sequential_schedule(problem: PipelineProblem) -> Schedule:
    """One operation at a time, one micro-batch after the other, with as few offloads as needed.

    Exists whenever the problem is feasible; raises `OrderError` if it isn't, or if the search for
    its offloads was given up. Far from short: a
    start for better ones and a fallback. (Where a host is short of room, more offloads than the
    fewest may be made.)
    """
    kinds = _kinds_of_micro_batches(problem)
    groups = memory_groups(problem, list(kinds))
    moves_of: dict[int, Moves] = {}
    for representative, members in kinds.items():
        for m in members:
            moves_of[m] = {}
        for group in groups:
            found = group.find_moves(representative)
            if found is None:
                raise OrderError(f"micro-batch {representative} does not fit even alone")
            for m in members:
                for before, moves in found.items():
                    moves_of[m][before._replace(micro_batch=m)] = tuple(
                        move._replace(micro_batch=m) for move in moves
                    )
    ops: list[TimedOp] = []
    if problem.alike:
        _append_alone(problem, 0, moves_of[0], ops)
        first, length_ns = tuple(ops), ops[-1].end_ns
        for m in range(1, problem.micro_batches):
            shift = m * length_ns
            ops += [TimedOp(op, s, m, a + shift, b + shift) for op, s, _, a, b in first]
        return schedule_from_ops(problem, ops)
    for m in range(problem.micro_batches):
        _append_alone(problem, m, moves_of[m], ops)
    return schedule_from_ops(problem, ops)


def _append_alone(
    problem: PipelineProblem, micro_batch: int, moves: Moves, ops: list[TimedOp]
) -> None:
    """Run one micro-batch after all that `ops` holds."""
    now = ops[-1].end_ns if ops else 0

    def run(op: OpKind, s: int, not_before: int = 0) -> None:
        nonlocal now
        stage = problem.stages[s]
        duration = {
            "F": stage.forward_ns,
            "B": stage.backward_input_ns,
            "W": stage.backward_weight_ns,
            "O": stage.offload_ns,
            "R": stage.reload_ns,
        }[op][micro_batch]
        start = max(now, not_before)
        now = start + duration
        ops.append(TimedOp(op, s, micro_batch, start, now))

    def run_moves(op: OpKind, s: int) -> None:
        for move in moves.get(Token(op, s, micro_batch), ()):
            run(move.op, move.stage)

    arrival = 0
    last = len(problem.stages) - 1
    for s in range(last + 1):
        run_moves("F", s)
        run("F", s, arrival)
        arrival = now + (problem.transfers[s].forward_ns[micro_batch] if s < last else 0)
    for s in range(last, -1, -1):
        run_moves("B", s)
        run("B", s, arrival)
        arrival = now + (problem.transfers[s - 1].backward_ns[micro_batch] if s else 0)
        if problem.stages[s].has_weight_op(micro_batch):
            run("W", s)


def _kinds_of_micro_batches(problem: PipelineProblem) -> dict[int, list[int]]:
    """Micro-batches that are alike in memory, under the first of them."""
    kinds: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for m in range(problem.micro_batches):
        key = tuple(chunks_of(problem, d, m) for d in range(len(problem.devices)))
        kinds[key].append(m)
    return {members[0]: members for members in kinds.values()}
